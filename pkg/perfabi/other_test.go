package perfabi

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

const trailerType = SampleIdentifier | SampleIP | SampleTID | SampleTime | SampleID | SampleStreamID | SampleCPU | SampleRaw

func trailer() (wire []any, want SampleIDFields) {
	return []any{uint32(70), uint32(71), uint64(72), uint64(73), uint64(74), uint32(75), uint32(0), uint64(76)},
		SampleIDFields{PID: 70, TID: 71, Time: 72, ID: 73, StreamID: 74, CPU: 75, Identifier: 76}
}

type decoder interface {
	Decode(rec []byte, l *Layout) error
}

// bodies are the records that are no samples: their bytes before the trailer, and what they decode to.
func bodies() []struct {
	typ  uint32
	misc uint16
	body []any
	got  decoder
	want decoder
} {
	_, id := trailer()
	buildID := "\x14\x00\x00\x00" + "0123456789abcdefghij"
	return []struct {
		typ  uint32
		misc uint16
		body []any
		got  decoder
		want decoder
	}{
		{RecordLost, 0, []any{uint64(5), uint64(19)}, &Lost{}, &Lost{Event: 5, Lost: 19, SampleID: id}},
		{RecordLostSamples, 0, []any{uint64(19)}, &LostSamples{}, &LostSamples{Lost: 19, SampleID: id}},
		{RecordComm, 0, []any{uint32(1), uint32(2), "worker\x00\x00"}, &Comm{},
			&Comm{PID: 1, TID: 2, Comm: []byte("worker"), SampleID: id}},
		{RecordComm, MiscCommExec, []any{uint32(1), uint32(2), "\x00\x00\x00\x00\x00\x00\x00\x00"}, &Comm{},
			&Comm{PID: 1, TID: 2, Exec: true, Comm: []byte{}, SampleID: id}},
		{RecordFork, 0, []any{uint32(1), uint32(2), uint32(3), uint32(4), uint64(5)}, &Task{},
			&Task{PID: 1, PPID: 2, TID: 3, PTID: 4, Time: 5, SampleID: id}},
		{RecordExit, 0, []any{uint32(1), uint32(2), uint32(3), uint32(4), uint64(5)}, &Task{},
			&Task{PID: 1, PPID: 2, TID: 3, PTID: 4, Time: 5, SampleID: id}},
		{RecordThrottle, 0, []any{uint64(1), uint64(2), uint64(3)}, &Throttle{},
			&Throttle{Time: 1, ID: 2, StreamID: 3, SampleID: id}},
		{RecordUnthrottle, 0, []any{uint64(1), uint64(2), uint64(3)}, &Throttle{},
			&Throttle{Time: 1, ID: 2, StreamID: 3, SampleID: id}},
		{RecordMmap2, MiscUser, []any{uint32(1), uint32(2), uint64(3), uint64(4), uint64(5), uint32(8), uint32(1), uint64(6), uint64(7),
			uint32(5), uint32(2), "/lib/a b\x00\x00\x00\x00\x00\x00\x00\x00"}, &Mmap2{},
			&Mmap2{PID: 1, TID: 2, Addr: 3, Len: 4, Offset: 5, Major: 8, Minor: 1, Inode: 6, InodeGeneration: 7, Prot: 5, Flags: 2,
				Filename: []byte("/lib/a b"), SampleID: id}},
		{RecordMmap2, MiscUser | MiscMmapBuildID, []any{uint32(1), uint32(2), uint64(3), uint64(4), uint64(5), buildID,
			uint32(5), uint32(2), "/lib/a b\x00\x00\x00\x00\x00\x00\x00\x00"}, &Mmap2{},
			&Mmap2{PID: 1, TID: 2, Addr: 3, Len: 4, Offset: 5, BuildID: []byte("0123456789abcdefghij"), Prot: 5, Flags: 2,
				Filename: []byte("/lib/a b"), SampleID: id}},
	}
}

func TestRecordsThatAreNoSamples(t *testing.T) {
	l := Layout{SampleType: trailerType}
	tail, id := trailer()
	for _, tt := range bodies() {
		rec := record(t, tt.typ, tt.misc, append(tt.body, tail...)...)
		if err := tt.got.Decode(rec, &l); err != nil {
			t.Errorf("type %d: %v", tt.typ, err)
			continue
		}
		if !reflect.DeepEqual(tt.got, tt.want) {
			t.Errorf("type %d:\ngot  %+v\nwant %+v", tt.typ, tt.got, tt.want)
		}
		if got, err := ParseTrailer(rec, &l); err != nil || got != id {
			t.Errorf("type %d: trailer %+v, %v", tt.typ, got, err)
		}
		for n := HeaderSize; n < len(rec); n++ {
			checkShort(t, tt.got, resize(rec, n), &l)
		}
	}
}

// checkShort decodes a record that lost its end: a trailer made of the body's last bytes must not hide that. Only the
// padding of a string can be missing unseen.
func checkShort(t *testing.T, d decoder, rec []byte, l *Layout) {
	t.Helper()
	err := d.Decode(rec, l)
	var e *Error
	switch {
	case err == nil:
		switch d.(type) {
		case *Comm, *Mmap2:
		default:
			t.Errorf("%T of %d bytes: no error", d, len(rec))
		}
	case !errors.As(err, &e):
		t.Errorf("%T of %d bytes: %v", d, len(rec), err)
	case e.Reason == "" && (e.Available != uint64(len(rec)) || e.Needed <= e.Available):
		t.Errorf("%T of %d bytes: needed %d, available %d", d, len(rec), e.Needed, e.Available)
	}
}

func TestTrailersByTheirBits(t *testing.T) {
	for bit, want := range map[uint64]SampleIDFields{
		SampleTID:        {PID: 0x11, TID: 0x22},
		SampleTime:       {Time: 0x22_0000_0011},
		SampleID:         {ID: 0x22_0000_0011},
		SampleStreamID:   {StreamID: 0x22_0000_0011},
		SampleCPU:        {CPU: 0x11},
		SampleIdentifier: {Identifier: 0x22_0000_0011},
		SampleIP:         {},
	} {
		parts := []any{uint64(1)}
		if bit != SampleIP {
			parts = append(parts, uint32(0x11), uint32(0x22))
		}
		var r LostSamples
		if err := r.Decode(record(t, RecordLostSamples, 0, parts...), &Layout{SampleType: bit}); err != nil || r.SampleID != want {
			t.Errorf("bit %#x: got %+v, %v; want %+v", bit, r.SampleID, err, want)
		}
	}
}

func TestStringsWithoutAnEnd(t *testing.T) {
	var c Comm
	err := c.Decode(record(t, RecordComm, 0, uint32(1), uint32(2), "worker12"), &Layout{})
	if err == nil || !strings.Contains(err.Error(), "comm: has no end") {
		t.Errorf("got %v", err)
	}
	var m Mmap2
	err = m.Decode(record(t, RecordMmap2, MiscMmapBuildID, uint32(1), uint32(2), uint64(3), uint64(4), uint64(5),
		"\x15\x00\x00\x00"+"0123456789abcdefghij", uint32(5), uint32(2), "name\x00\x00\x00\x00"), &Layout{})
	if err == nil || !strings.Contains(err.Error(), "build_id: has an impossible size") {
		t.Errorf("got %v", err)
	}
}

func TestParseHeader(t *testing.T) {
	h, err := ParseHeader(append(record(t, 99, 3, uint64(1)), "next"...))
	if err != nil || h != (Header{99, 3, 16}) {
		t.Errorf("got %+v, %v", h, err)
	}
	for name, b := range map[string][]byte{
		"short":         make([]byte, 7),
		"size 0":        make([]byte, 8),
		"size below 8":  {9, 0, 0, 0, 0, 0, 7, 0},
		"size too long": {9, 0, 0, 0, 0, 0, 9, 0},
	} {
		var e *Error
		if _, err := ParseHeader(b); !errors.As(err, &e) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
