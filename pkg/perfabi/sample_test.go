package perfabi

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
)

const allFields = SampleIdentifier | SampleIP | SampleTID | SampleTime | SampleAddr | SampleID | SampleStreamID | SampleCPU |
	SamplePeriod | SampleRead | SampleCallchain | SampleRaw | SampleRegsUser | SampleRegsIntr

func general(first uint64) Words {
	var w Words
	for i := range uint64(16) {
		w = append(w, words(first+i)...)
	}
	return w
}

// part is what one bit of sample_type adds to a record, in kernel order, and what it must decode to.
type part struct {
	bit  uint64
	wire []any
	want func(*Sample)
}

func parts() []part {
	return []part{
		{SampleIdentifier, []any{uint64(0xa1)}, func(s *Sample) { s.Identifier = 0xa1 }},
		{SampleIP, []any{uint64(0x400510)}, func(s *Sample) { s.IP = 0x400510 }},
		{SampleTID, []any{uint32(7), uint32(9)}, func(s *Sample) { s.PID, s.TID = 7, 9 }},
		{SampleTime, []any{uint64(123456789)}, func(s *Sample) { s.Time = 123456789 }},
		{SampleAddr, []any{uint64(0x601040)}, func(s *Sample) { s.Addr = 0x601040 }},
		{SampleID, []any{uint64(0xa2)}, func(s *Sample) { s.ID = 0xa2 }},
		{SampleStreamID, []any{uint64(0xa3)}, func(s *Sample) { s.StreamID = 0xa3 }},
		{SampleCPU, []any{uint32(3), uint32(0)}, func(s *Sample) { s.CPU = 3 }},
		{SamplePeriod, []any{uint64(1)}, func(s *Sample) { s.Period = 1 }},
		{SampleRead, []any{uint64(55)}, func(s *Sample) { s.Read.Values = []ReadValue{{Value: 55}} }},
		{SampleCallchain, []any{uint64(2), words(ContextUser, 0x400510)},
			func(s *Sample) { s.Callchain = words(ContextUser, 0x400510) }},
		{SampleRaw, []any{uint32(12), "hello, world"}, func(s *Sample) { s.Raw = []byte("hello, world") }},
		{SampleRegsUser, []any{uint64(RegsABI64), uint64(0x7f00)},
			func(s *Sample) { s.RegsUser = Regs{RegsABI64, words(0x7f00)} }},
		{SampleRegsIntr, []any{uint64(RegsABI64), general(100)},
			func(s *Sample) { s.RegsIntr = Regs{RegsABI64, general(100)} }},
	}
}

func sampleWith(t testing.TB, sampleType uint64) (rec []byte, want Sample) {
	t.Helper()
	var wire []any
	want.Misc = MiscUser
	for _, p := range parts() {
		if sampleType&p.bit != 0 {
			wire = append(wire, p.wire...)
			p.want(&want)
		}
	}
	return record(t, RecordSample, MiscUser, wire...), want
}

func TestSampleFieldsInKernelOrder(t *testing.T) {
	types := []uint64{0, allFields, SampleIdentifier | SampleIP | SampleTID | SampleTime | SampleRaw | SampleCallchain | SampleRegsIntr}
	for _, p := range parts() {
		types = append(types, p.bit, allFields&^p.bit)
	}
	for _, sampleType := range types {
		l := Layout{SampleType: sampleType, RegsUser: MaskIP, RegsIntr: MaskGeneral}
		rec, want := sampleWith(t, sampleType)
		var got Sample
		if err := got.Decode(rec, &l); err != nil {
			t.Errorf("sample type %#x: %v", sampleType, err)
		} else if !reflect.DeepEqual(got, want) {
			t.Errorf("sample type %#x:\ngot  %+v\nwant %+v", sampleType, got, want)
		}
	}
}

func TestSampleForgetsThePreviousOne(t *testing.T) {
	l := Layout{SampleType: allFields, RegsUser: MaskIP, RegsIntr: MaskGeneral}
	rec, _ := sampleWith(t, allFields)
	var s Sample
	if err := s.Decode(rec, &l); err != nil {
		t.Fatal(err)
	}
	s.Read.Values = s.Read.Values[:0]
	rec, want := sampleWith(t, SampleIP)
	if err := s.Decode(rec, &Layout{SampleType: SampleIP}); err != nil {
		t.Fatal(err)
	}
	s.Read.Values = nil
	if !reflect.DeepEqual(s, want) {
		t.Errorf("got %+v\nwant %+v", s, want)
	}
}

func TestSampleOfTheWrongSize(t *testing.T) {
	l := Layout{SampleType: allFields, RegsUser: MaskIP, RegsIntr: MaskGeneral}
	rec, _ := sampleWith(t, allFields)
	for n := HeaderSize; n < len(rec); n++ {
		e := decodeError(t, resize(rec, n), &l)
		if e.Available != uint64(n) || e.Needed <= uint64(n) {
			t.Errorf("cut to %d bytes: needed %d, available %d", n, e.Needed, e.Available)
		}
	}
	e := decodeError(t, resize(rec, len(rec)+8), &l)
	if e.Needed != uint64(len(rec)) || e.Available != uint64(len(rec)+8) || !strings.Contains(e.Error(), "8 bytes are left over") {
		t.Errorf("8 bytes too long: %+v", e)
	}
	var s Sample
	if err := s.Decode(rec[:len(rec)-1], &l); err == nil {
		t.Error("fewer bytes than the header says: no error")
	}
	if err := s.Decode(append(rec, 0), &l); err == nil {
		t.Error("more bytes than the header says: no error")
	}
}

func decodeError(t *testing.T, rec []byte, l *Layout) *Error {
	t.Helper()
	var s Sample
	err := s.Decode(rec, l)
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("%d bytes: got error %v, want an *Error", len(rec), err)
	}
	return e
}

func TestLengthsThatOverflow(t *testing.T) {
	for _, n := range []uint64{2, 1 << 61, 1<<61 + 1, 1<<64 - 1} {
		e := decodeError(t, record(t, RecordSample, 0, n, uint64(0)), &Layout{SampleType: SampleCallchain})
		want := uint64(math.MaxUint64)
		if n == 2 {
			want = HeaderSize + 8 + 16
		}
		if e.Needed != want || e.Available != 24 {
			t.Errorf("call chain of %d: needed %d, available %d", n, e.Needed, e.Available)
		}
	}
	e := decodeError(t, record(t, RecordSample, 0, uint32(math.MaxUint32), uint32(0)), &Layout{SampleType: SampleRaw})
	if e.Needed != 12+math.MaxUint32 || e.Available != 16 {
		t.Errorf("raw: needed %d, available %d", e.Needed, e.Available)
	}
	l := Layout{SampleType: SampleRead, ReadFormat: FormatGroup}
	if e := decodeError(t, record(t, RecordSample, 0, uint64(1<<60), uint64(1)), &l); e.Needed != 32 || e.Available != 24 {
		t.Errorf("group of counters: needed %d, available %d", e.Needed, e.Available)
	}
}

func TestRegisterABI(t *testing.T) {
	l := Layout{SampleType: SampleRegsIntr, RegsIntr: MaskGeneral}
	var s Sample
	if err := s.Decode(record(t, RecordSample, 0, uint64(RegsABINone)), &l); err != nil || s.RegsIntr.Words != nil {
		t.Errorf("none: got %+v, %v", s.RegsIntr, err)
	}
	if s.RegsIntr.General(MaskGeneral) != nil {
		t.Error("none: has general registers")
	}
	for _, abi := range []uint64{RegsABI32, RegsABI64} {
		if err := s.Decode(record(t, RecordSample, 0, abi, general(5)), &l); err != nil {
			t.Fatalf("abi %d: %v", abi, err)
		}
		if got := s.RegsIntr.General(MaskGeneral); !bytes.Equal(got, general(5)) {
			t.Errorf("abi %d: got %x", abi, got)
		}
	}
	for _, abi := range []uint64{3, 1 << 40} {
		e := decodeError(t, record(t, RecordSample, 0, abi, general(5)), &l)
		if e.Field != "regs_intr" || !strings.HasSuffix(e.Reason, map[uint64]string{3: " 3", 1 << 40: " 1099511627776"}[abi]) {
			t.Errorf("abi %d: got %v", abi, e)
		}
	}
}

func TestRegByItsBit(t *testing.T) {
	r := Regs{ABI: RegsABI64, Words: words(10, 11, 12)}
	const mask = 1<<RegBX | MaskIP | 1<<RegR15
	for reg, want := range map[uint]uint64{RegBX: 10, RegIP: 11, RegR15: 12} {
		if got, ok := r.Reg(mask, reg); !ok || got != want {
			t.Errorf("register %d: got %d, %v", reg, got, ok)
		}
	}
	if got, ok := r.Reg(mask, RegAX); ok {
		t.Errorf("register outside the mask: got %d", got)
	}
	if got, ok := (Regs{}).Reg(mask, RegIP); ok {
		t.Errorf("no registers: got %d", got)
	}
	if r.General(mask) != nil {
		t.Error("three registers pass for the sixteen")
	}
}

func TestFieldsThatAreNotDecoded(t *testing.T) {
	for bit := uint64(1); bit < 1<<26; bit <<= 1 {
		if bit&allFields != 0 {
			continue
		}
		e := decodeError(t, record(t, RecordSample, 0, uint64(0)), &Layout{SampleType: bit})
		if e.Field != "sample_type" {
			t.Errorf("sample type %#x: got %v", bit, e)
		}
	}
}

func TestReadFormats(t *testing.T) {
	tests := []struct {
		format uint64
		wire   Words
		want   Read
	}{
		{0, words(5), Read{Values: []ReadValue{{Value: 5}}}},
		{FormatLost, words(5, 2), Read{Values: []ReadValue{{Value: 5, Lost: 2}}}},
		{FormatTotalTimeEnabled | FormatTotalTimeRunning | FormatID | FormatLost, words(5, 6, 7, 8, 9),
			Read{TimeEnabled: 6, TimeRunning: 7, Values: []ReadValue{{5, 8, 9}}}},
		{FormatGroup | FormatTotalTimeEnabled | FormatTotalTimeRunning | FormatID | FormatLost, words(2, 6, 7, 1, 2, 3, 4, 5, 6),
			Read{TimeEnabled: 6, TimeRunning: 7, Values: []ReadValue{{1, 2, 3}, {4, 5, 6}}}},
		{FormatGroup, words(0), Read{Values: []ReadValue{}}},
	}
	for _, tt := range tests {
		var got Read
		got.Values = []ReadValue{{9, 9, 9}}
		if err := got.Parse(tt.wire, tt.format); err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("format %#x: got %+v, %v; want %+v", tt.format, got, err, tt.want)
		}
		if err := got.Parse(tt.wire[:len(tt.wire)-1], tt.format); err == nil {
			t.Errorf("format %#x: a byte short: no error", tt.format)
		}
		if err := got.Parse(append(tt.wire, 0), tt.format); err == nil {
			t.Errorf("format %#x: a byte long: no error", tt.format)
		}
	}
}

func TestDecodeDoesNotAllocate(t *testing.T) {
	l := Layout{SampleType: allFields, RegsUser: MaskIP, RegsIntr: MaskGeneral}
	rec, _ := sampleWith(t, allFields)
	comm := record(t, RecordComm, 0, uint32(1), uint32(2), "name\x00\x00\x00\x00", uint64(9))
	lc := Layout{SampleType: SampleTime}
	var s Sample
	var c Comm
	n := testing.AllocsPerRun(100, func() {
		if s.Decode(rec, &l) != nil || c.Decode(comm, &lc) != nil {
			t.Fatal("does not decode")
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkSampleDecode(b *testing.B) {
	l := Layout{SampleType: SampleIdentifier | SampleIP | SampleTID | SampleTime | SampleRaw | SampleRegsIntr, RegsIntr: MaskGeneral}
	rec := record(b, RecordSample, MiscUser, uint64(1), uint64(2), uint32(3), uint32(4), uint64(5),
		uint32(HitSize+4), make([]byte, HitSize+4), uint64(RegsABI64), general(6))
	var s Sample
	var h Hit
	b.SetBytes(int64(len(rec)))
	for b.Loop() {
		if err := s.Decode(rec, &l); err != nil {
			b.Fatal(err)
		}
		if err := h.Parse(s.Raw); err != nil {
			b.Fatal(err)
		}
	}
}

// TestUsualSample decodes the fields of most samples both ways, and what is wrong with them.
func TestUsualSample(t *testing.T) {
	l := Layout{SampleType: usual}
	whole := record(t, RecordSample, MiscUser, uint64(1), uint64(2), uint32(3), uint32(4), uint64(5), uint32(12), "twelve bytes")
	long, short, other := bytes.Clone(whole), bytes.Clone(whole), bytes.Clone(whole)
	long[HeaderSize+32]++
	short[HeaderSize+32]--
	other[0] = byte(RecordLost)
	cuts := [][]byte{whole, long, short, other, append(bytes.Clone(whole), 0)}
	for n := range whole {
		cuts = append(cuts, whole[:n])
	}
	for _, rec := range cuts {
		var got, want Sample
		f := func(s *Sample) error { // Decode without the short way
			l := Layout{SampleType: usual | SampleID}
			longer := rec
			if len(rec) >= HeaderSize+32 { // an id behind the time
				longer = slices.Concat(rec[:HeaderSize+32], make([]byte, 8), rec[HeaderSize+32:])
				binary.LittleEndian.PutUint16(longer[6:], PeekSize(rec)+8)
			}
			return s.Decode(longer, &l)
		}
		err, wantErr := got.Decode(rec, &l), f(&want)
		if (err == nil) != (wantErr == nil) || err == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("%d bytes: got %+v, %v, want %+v, %v", len(rec), got, err, want, wantErr)
		}
	}
}
