package perfabi

import (
	"encoding/binary"
	"testing"
)

// TestPeeksAgreeWithDecode compares each peek with the whole decoding, for layouts with and without the other fields.
func TestPeeksAgreeWithDecode(t *testing.T) {
	const needs = SampleIdentifier | SampleTID | SampleTime | SampleAddr
	for sampleType := uint64(needs); sampleType <= allFields; sampleType++ {
		if sampleType&needs != needs || sampleType&^allFields != 0 {
			continue
		}
		l := Layout{SampleType: sampleType, RegsUser: MaskIP, RegsIntr: MaskGeneral}
		rec, want := sampleWith(t, sampleType)
		id, ok1 := PeekID(rec)
		time, ok2 := PeekTime(rec, sampleType)
		pid, tid, ok3 := PeekTask(rec, sampleType)
		addr, ok4 := PeekAddr(rec, sampleType)
		if !ok1 || !ok2 || !ok3 || !ok4 || id != want.Identifier || time != want.Time || pid != want.PID || tid != want.TID || addr != want.Addr {
			t.Fatalf("layout %+v: got id %d, time %d, pid %d, tid %d, addr %#x", l, id, time, pid, tid, addr)
		}
	}
}

func TestPeeksOfTrailers(t *testing.T) {
	tail, want := trailer()
	rec := record(t, RecordFork, 0, append([]any{uint64(1), uint64(2), uint64(3)}, tail...)...)
	if id, ok := PeekID(rec); !ok || id != want.Identifier {
		t.Errorf("got id %d, %v", id, ok)
	}
	for sampleType := uint64(0); sampleType <= trailerType; sampleType++ {
		if sampleType&^trailerType != 0 || sampleType&SampleTime == 0 {
			continue
		}
		l := Layout{SampleType: sampleType}
		id, err := ParseTrailer(rec, &l)
		if err != nil {
			t.Fatal(err)
		}
		if time, ok := PeekTime(rec, sampleType); !ok || time != id.Time {
			t.Errorf("sample type %#x: got time %d, %v; want %d", sampleType, time, ok, id.Time)
		}
	}
}

func TestPeekHitSlot(t *testing.T) {
	payload := make([]byte, HitSize+4)
	binary.LittleEndian.PutUint32(payload, 3)
	for _, chain := range [][]any{nil, {uint64(0)}, {uint64(2), uint64(0x10), uint64(0x20)}} {
		sampleType := uint64(SampleIdentifier | SampleIP | SampleTID | SampleTime | SampleRaw)
		parts := []any{uint64(1), uint64(2), uint64(3), uint64(4)}
		if chain != nil {
			sampleType |= SampleCallchain
			parts = append(parts, chain...)
		}
		rec := record(t, RecordSample, 0, append(parts, uint32(len(payload)), payload)...)
		if slot, ok := PeekHitSlot(rec, sampleType); !ok || slot != 3 {
			t.Errorf("call chain %v: got slot %d, %v", chain, slot, ok)
		}
		for n := range 40 + 8*max(0, len(chain)) {
			if _, ok := PeekHitSlot(rec[:n], sampleType); ok {
				t.Errorf("call chain %v: %d bytes have a slot", chain, n)
			}
		}
	}
	huge := record(t, RecordSample, 0, uint64(1<<61), uint64(0), uint64(0))
	if _, ok := PeekHitSlot(huge, SampleCallchain|SampleRaw); ok {
		t.Error("call chain beyond the record: has a slot")
	}
}

func TestPeeksOfShortRecords(t *testing.T) {
	for _, typ := range []uint32{RecordSample, RecordFork} {
		rec := record(t, typ, 0)
		for n := range len(rec) + 1 {
			_, ok1 := PeekID(rec[:n])
			_, ok2 := PeekTime(rec[:n], trailerType)
			_, _, ok3 := PeekTask(rec[:n], trailerType)
			_, ok4 := PeekAddr(rec[:n], trailerType|SampleAddr)
			_, ok5 := PeekHitSlot(rec[:n], trailerType)
			if ok1 || ok2 || ok3 || ok4 || ok5 {
				t.Errorf("type %d, %d bytes: found a field", typ, n)
			}
		}
	}
}
