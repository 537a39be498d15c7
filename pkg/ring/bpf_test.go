package ring

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"
)

// fakeBPF is a BPF ring buffer whose programs are this test.
type fakeBPF struct {
	consumer, producer, data []byte
	size                     uint64
	head                     uint64
}

// newFakeBPF returns a ring of size bytes, empty, after start bytes have gone through it.
func newFakeBPF(size int, start uint64) *fakeBPF {
	f := &fakeBPF{consumer: make([]byte, 8), producer: make([]byte, 8), data: make([]byte, size), size: uint64(size), head: start}
	binary.LittleEndian.PutUint64(f.consumer, start)
	binary.LittleEndian.PutUint64(f.producer, start)
	return f
}

func (f *fakeBPF) cursor(t testing.TB) *BPFCursor {
	t.Helper()
	c, err := NewBPF(f.consumer, f.producer, f.data)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (f *fakeBPF) position() uint64 { return binary.LittleEndian.Uint64(f.consumer) }

// store puts bytes at a position.
func (f *fakeBPF) store(at uint64, b []byte) {
	for i, v := range b {
		f.data[(at+uint64(i))%f.size] = v
	}
}

// setHeader writes the header of the record at a position.
func (f *fakeBPF) setHeader(at uint64, length uint32) {
	f.store(at, binary.LittleEndian.AppendUint32(nil, length))
}

// write stores a record with the given flags as the kernel does and returns its position, or says that there is no room.
func (f *fakeBPF) write(b []byte, flags uint32) (at uint64, ok bool) {
	whole := uint64(8 + (len(b)+7)&^7)
	if f.head-f.position()+whole > f.size {
		return 0, false
	}
	at = f.head
	f.setHeader(at, uint32(len(b))|flags)
	f.store(at+8, b)
	f.claim(whole)
	return at, true
}

// claim moves the programs' position.
func (f *fakeBPF) claim(n uint64) {
	f.head += n
	binary.LittleEndian.PutUint64(f.producer, f.head)
}

// TestBPFEveryWrap writes and drains records of several sizes across the end of a ring at each possible place, also where the
// positions themselves wrap.
func TestBPFEveryWrap(t *testing.T) {
	for start := uint64(0); start < 64; start += 8 {
		for _, base := range []uint64{0, 1 << 40, math.MaxUint64 - 255} {
			f := newFakeBPF(64, base+start)
			c := f.cursor(t)
			for n := range 100 {
				want := record(uint32(n), 8+8*(n%5), 8+8*(n%5))
				if _, ok := f.write(want, 0); !ok {
					t.Fatalf("start %d: no room for record %d", start, n)
				}
				if got := yielded(c); len(got) != 1 || !bytes.Equal(got[0], want) || c.Err() != nil {
					t.Fatalf("start %d, record %d: got %x, error %v, want %x", start, n, got, c.Err(), want)
				}
				c.Commit()
				if f.position() != f.head {
					t.Fatalf("start %d, record %d: position %d of %d", start, n, f.position(), f.head)
				}
			}
		}
	}
}

// TestBPFRoomIsGivenBackByCommit keeps records in the ring until then.
func TestBPFRoomIsGivenBackByCommit(t *testing.T) {
	f := newFakeBPF(64, 0)
	c := f.cursor(t)
	f.write(record(1, 24, 24), 0)
	f.write(record(2, 24, 24), 0)
	if _, ok := f.write(record(3, 24, 24), 0); ok {
		t.Fatal("a third record found room")
	}
	c.Next()
	if f.position() != 0 {
		t.Errorf("position %d before Commit", f.position())
	}
	c.Commit()
	if _, ok := f.write(record(3, 24, 24), 0); !ok {
		t.Fatal("no room after Commit")
	}
	if got := yielded(c); len(got) != 2 || got[0][0] != 2 || got[1][0] != 3 {
		t.Errorf("got %x", got)
	}
}

// TestBPFDrainEnds yields what there was when the drain began.
func TestBPFDrainEnds(t *testing.T) {
	f := newFakeBPF(256, 0)
	c := f.cursor(t)
	f.write(record(1, 24, 24), 0)
	if !c.Next() {
		t.Fatal("no record")
	}
	f.write(record(2, 24, 24), 0)
	if c.Next() {
		t.Error("a record that was not there when the drain began")
	}
	c.Commit()
	if got := yielded(c); len(got) != 1 || got[0][0] != 2 {
		t.Errorf("got %x", got)
	}
}

// TestBPFWaitsForWriter stops at a record that is being written, and goes on there when it is submitted.
func TestBPFWaitsForWriter(t *testing.T) {
	f := newFakeBPF(256, 0)
	c := f.cursor(t)
	f.write(record(1, 24, 24), 0)
	at, _ := f.write(record(2, 24, 24), bpfBusy)
	f.write(record(3, 24, 24), 0)
	if got := yielded(c); len(got) != 1 || got[0][0] != 1 || !c.Busy() || c.Err() != nil {
		t.Fatalf("got %x, busy %v, error %v", got, c.Busy(), c.Err())
	}
	c.Commit()
	if f.position() != at {
		t.Errorf("position %d, want %d", f.position(), at)
	}
	f.setHeader(at, 24)
	if got := yielded(c); len(got) != 2 || got[0][0] != 2 || got[1][0] != 3 || c.Busy() || c.Err() != nil {
		t.Errorf("got %x, busy %v, error %v", got, c.Busy(), c.Err())
	}
}

func TestBPFSkipsDiscarded(t *testing.T) {
	f := newFakeBPF(256, 0)
	c := f.cursor(t)
	f.write(record(1, 20, 20), bpfDiscarded)
	f.write(record(2, 24, 24), 0)
	f.write(record(3, 24, 24), bpfDiscarded)
	if got := yielded(c); len(got) != 1 || got[0][0] != 2 || c.Err() != nil {
		t.Errorf("got %x, error %v", got, c.Err())
	}
	c.Commit()
	if f.position() != f.head {
		t.Errorf("position %d of %d", f.position(), f.head)
	}
}

// TestBPFGoesOnBehindFence has a program put its record behind one that it discards when that is done: it is the drain's if the
// program was at work when the drain began. What the next one does is not.
func TestBPFGoesOnBehindFence(t *testing.T) {
	for _, waits := range []bool{false, true} {
		f := newFakeBPF(256, 0)
		c := f.cursor(t)
		first, behind := record(1, 24, 24), record(2, 24, 24)
		f.write(first, 0)
		fence, _ := f.write(make([]byte, 8), bpfBusy)
		if !c.Next() || !bytes.Equal(c.Record(), first) {
			t.Fatalf("got %x, want %x", c.Record(), first)
		}
		if waits && (c.Next() || !c.Busy()) {
			t.Fatalf("no wait for the program: record %x", c.Record())
		}
		f.write(behind, 0)
		f.setHeader(fence, 8|bpfDiscarded)
		next, _ := f.write(make([]byte, 8), bpfBusy)
		if got := yielded(c); len(got) != 1 || !bytes.Equal(got[0], behind) || c.Err() != nil {
			t.Errorf("waits %v: got %x, error %v, want %x", waits, got, c.Err(), behind)
		}
		c.Commit()
		if f.position() != next || c.Busy() {
			t.Errorf("waits %v: position %d, want %d; busy %v", waits, f.position(), next, c.Busy())
		}
	}
}

func TestBPFCorrupt(t *testing.T) {
	for name, tt := range map[string]struct {
		spoil func(f *fakeBPF)
		want  Error
	}{
		"less than a header": {func(f *fakeBPF) { f.claim(4) }, Error{Pos: 32, Lost: 4, Reason: "4 bytes are less than a header"}},
		"beyond the head": {func(f *fakeBPF) { f.setHeader(32, 24); f.claim(16) },
			Error{Pos: 32, Size: 24, Lost: 16, Reason: "record of 32 bytes with 16 left"}},
		"longest length": {func(f *fakeBPF) { f.setHeader(32, 1<<30-1); f.claim(16) },
			Error{Pos: 32, Size: 1<<30 - 1, Lost: 16, Reason: "record of 1073741832 bytes with 16 left"}},
		"no perf record": {func(f *fakeBPF) { f.write(record(9, 16, 24), 0) },
			Error{Pos: 32, Size: 16, Lost: 24, Reason: "no perf record in 16 bytes"}},
		"too short": {func(f *fakeBPF) { f.write([]byte{9, 0, 0, 0}, 0) },
			Error{Pos: 32, Size: 4, Lost: 16, Reason: "no perf record in 4 bytes"}},
		"more than the ring": {func(f *fakeBPF) { f.claim(128) }, Error{Lost: 160, Reason: "160 bytes in a ring of 128"}},
	} {
		f := newFakeBPF(128, 0)
		c := f.cursor(t)
		f.write(record(1, 24, 24), 0)
		tt.spoil(f)
		recs := yielded(c)
		c.Commit()
		var e *Error
		if !errors.As(c.Err(), &e) || *e != tt.want || len(recs) != int(min(tt.want.Pos, 1)) {
			t.Errorf("%s: %d records, error %+v\nwant %+v", name, len(recs), e, tt.want)
		}
		if f.position() != f.head {
			t.Errorf("%s: position %d of %d: not resynchronised", name, f.position(), f.head)
		}
		if f.head%8 != 0 {
			continue // no program leaves it so
		}
		want := record(2, 24, 24)
		f.write(want, 0)
		if got := yielded(c); len(got) != 1 || !bytes.Equal(got[0], want) || c.Err() != nil {
			t.Errorf("%s: after it: got %x, error %v", name, got, c.Err())
		}
	}
}

func TestNewBPFRefuses(t *testing.T) {
	page := make([]byte, 16)
	for name, tt := range map[string]struct {
		consumer, producer, data []byte
		want                     string
	}{
		"no consumer":        {nil, page, make([]byte, 64), "no room"},
		"no producer":        {page, page[:7], make([]byte, 64), "no room"},
		"unaligned":          {page[1:], page, make([]byte, 64), "not aligned"},
		"unaligned producer": {page, page[4:], make([]byte, 64), "not aligned"},
		"no data":            {page, page, nil, "power of two"},
		"no power of two":    {page, page, make([]byte, 48), "power of two"},
		"4 bytes":            {page, page, make([]byte, 4), "power of two"},
	} {
		if _, err := NewBPF(tt.consumer, tt.producer, tt.data); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestBPFDrainDoesNotAllocate(t *testing.T) {
	f := newFakeBPF(64, 0)
	c := f.cursor(t)
	rec := record(1, 24, 24)
	n := testing.AllocsPerRun(100, func() {
		f.write(rec, 0)
		if !c.Next() || c.Next() {
			t.Error("not one record")
		}
		c.Commit()
	})
	// The write itself makes the bytes of a header.
	writing := testing.AllocsPerRun(100, func() {
		f.write(rec, 0)
		binary.LittleEndian.PutUint64(f.consumer, f.head)
	})
	if n > writing {
		t.Errorf("%v allocations a drain", n-writing)
	}
}
