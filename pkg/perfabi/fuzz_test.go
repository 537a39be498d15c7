package perfabi

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// encode writes s as the kernel would, with the padding words that Decode skips as zeros.
func encode(t testing.TB, s *Sample, l *Layout) []byte {
	values := map[uint64][]any{
		SampleIdentifier: {s.Identifier}, SampleIP: {s.IP}, SampleTID: {s.PID, s.TID}, SampleTime: {s.Time}, SampleAddr: {s.Addr},
		SampleID: {s.ID}, SampleStreamID: {s.StreamID}, SampleCPU: {s.CPU, uint32(0)}, SamplePeriod: {s.Period},
		SampleRead:      encodeRead(&s.Read, l.ReadFormat),
		SampleCallchain: {uint64(s.Callchain.Len()), s.Callchain},
		SampleRaw:       {uint32(len(s.Raw)), s.Raw},
		SampleRegsUser:  {s.RegsUser.ABI, s.RegsUser.Words},
		SampleRegsIntr:  {s.RegsIntr.ABI, s.RegsIntr.Words},
	}
	var wire []any
	for _, p := range parts() {
		if l.SampleType&p.bit != 0 {
			wire = append(wire, values[p.bit]...)
		}
	}
	return record(t, RecordSample, s.Misc, wire...)
}

func encodeRead(r *Read, format uint64) []any {
	var wire []any
	add := func(bit uint64, v uint64) {
		if format&bit != 0 {
			wire = append(wire, v)
		}
	}
	if format&FormatGroup == 0 && len(r.Values) == 1 {
		wire = append(wire, r.Values[0].Value)
	} else {
		wire = append(wire, uint64(len(r.Values)))
	}
	add(FormatTotalTimeEnabled, r.TimeEnabled)
	add(FormatTotalTimeRunning, r.TimeRunning)
	for _, v := range r.Values {
		add(FormatGroup, v.Value)
		add(FormatID, v.ID)
		add(FormatLost, v.Lost)
	}
	return wire
}

func FuzzSample(f *testing.F) {
	for _, sampleType := range []uint64{allFields, SampleIdentifier | SampleIP | SampleTID | SampleTime | SampleRaw | SampleRegsIntr} {
		rec, _ := sampleWith(f, sampleType)
		f.Add(rec[HeaderSize:], sampleType, uint64(0), uint64(MaskIP), uint64(MaskGeneral))
		f.Add(rec[HeaderSize:], sampleType, uint64(FormatGroup|FormatLost), uint64(1<<63), ^uint64(0))
	}
	f.Fuzz(func(t *testing.T, body []byte, sampleType, readFormat, regsUser, regsIntr uint64) {
		if len(body) > 60000 {
			return
		}
		rec := record(t, RecordSample, MiscUser, body)
		l := Layout{SampleType: sampleType, ReadFormat: readFormat & (1<<5 - 1), RegsUser: regsUser, RegsIntr: regsIntr}
		PeekHitSlot(rec, sampleType)
		PeekTime(rec, sampleType)
		var s Sample
		if s.Decode(rec, &l) != nil {
			return
		}
		if sampleType&SampleCPU != 0 {
			off := HeaderSize + wordBytes(sampleType&(singleWords&^SampleCPU&^SamplePeriod)) + 4
			binary.LittleEndian.PutUint32(rec[off:], 0)
		}
		if again := encode(t, &s, &l); !bytes.Equal(again, rec) {
			t.Errorf("%+v\ndecoded %x\nencoded %x", s, rec, again)
		}
	})
}

func FuzzOthers(f *testing.F) {
	tail, _ := trailer()
	for _, b := range bodies() {
		f.Add(record(f, b.typ, b.misc, append(b.body, tail...)...), uint64(trailerType))
	}
	f.Fuzz(func(_ *testing.T, rec []byte, sampleType uint64) {
		l := Layout{SampleType: sampleType}
		for _, d := range []decoder{&Sample{}, &Lost{}, &LostSamples{}, &Comm{}, &Task{}, &Throttle{}, &Mmap2{}} {
			_ = d.Decode(rec, &l)
		}
		_, _ = ParseTrailer(rec, &l)
		_ = new(Hit).Parse(rec)
		PeekID(rec)
		PeekTime(rec, sampleType)
		PeekTask(rec, sampleType)
		PeekAddr(rec, sampleType)
		PeekHitSlot(rec, sampleType)
	})
}
