package ring

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// fake is a ring whose kernel is this test.
type fake struct {
	meta, data []byte
	head       uint64
}

// newFake returns a ring of size bytes, empty, after start bytes have gone through it.
func newFake(size int, start uint64) *fake {
	f := &fake{meta: make([]byte, 2048), data: make([]byte, size), head: start}
	binary.LittleEndian.PutUint64(f.meta[headOff:], start)
	binary.LittleEndian.PutUint64(f.meta[tailOff:], start)
	return f
}

func (f *fake) tail() uint64 { return binary.LittleEndian.Uint64(f.meta[tailOff:]) }

func (f *fake) cursor(t testing.TB) *Cursor {
	t.Helper()
	c, err := New(f.meta, f.data)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// write stores bytes as the kernel does, or says that there is no room.
func (f *fake) write(b []byte) bool {
	if f.head-f.tail()+uint64(len(b)) > uint64(len(f.data)) {
		return false
	}
	for i, v := range b {
		f.data[(f.head+uint64(i))%uint64(len(f.data))] = v
	}
	f.head += uint64(len(b))
	binary.LittleEndian.PutUint64(f.meta[headOff:], f.head)
	return true
}

// record is size bytes, of which the header gives claim.
func record(typ uint32, size, claim int) []byte {
	b := binary.LittleEndian.AppendUint32(nil, typ)
	b = binary.LittleEndian.AppendUint16(b, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(claim))
	for len(b) < size {
		b = append(b, byte(typ)+byte(len(b)))
	}
	return b[:size]
}

// yielded is what a Cursor or a BPFCursor has until the drain is over.
func yielded(c interface {
	Next() bool
	Record() []byte
}) (recs [][]byte) {
	for c.Next() {
		recs = append(recs, bytes.Clone(c.Record()))
	}
	return recs
}

func TestDrain(t *testing.T) {
	f := newFake(64, 0)
	c := f.cursor(t)
	if got := yielded(c); got != nil {
		t.Errorf("empty ring: %x", got)
	}
	c.Commit()
	a, b := record(1, 8, 8), record(2, 24, 24)
	f.write(a)
	f.write(b)
	if !c.Next() || !bytes.Equal(c.Record(), a) {
		t.Fatalf("first record %x", c.Record())
	}
	late := record(3, 16, 16)
	f.write(late)
	if got := yielded(c); len(got) != 1 || !bytes.Equal(got[0], b) {
		t.Errorf("rest of the drain: %x", got)
	}
	if f.tail() != 0 {
		t.Errorf("tail %d before Commit", f.tail())
	}
	c.Commit()
	if f.tail() != 32 {
		t.Errorf("tail %d after Commit, want 32", f.tail())
	}
	if got := yielded(c); len(got) != 1 || !bytes.Equal(got[0], late) {
		t.Errorf("next drain: %x", got)
	}
	c.Commit()
	if err := c.Err(); err != nil || f.tail() != 48 {
		t.Errorf("error %v, tail %d", err, f.tail())
	}
}

// TestBegin fixes what a drain covers, and another cursor looks at it without taking it.
func TestBegin(t *testing.T) {
	f := newFake(64, 0)
	c := f.cursor(t)
	a, late := record(1, 8, 8), record(2, 16, 16)
	f.write(a)
	c.Begin()
	f.write(late)
	c.Begin() // the drain has begun
	if got := yielded(f.cursor(t)); len(got) != 2 || f.tail() != 0 {
		t.Errorf("ahead: %x, tail %d", got, f.tail())
	}
	if got := yielded(c); len(got) != 1 || !bytes.Equal(got[0], a) {
		t.Errorf("drain: %x", got)
	}
	c.Commit()
	if got := yielded(c); len(got) != 1 || !bytes.Equal(got[0], late) {
		t.Errorf("next drain: %x", got)
	}
}

// TestEveryWrap writes one record of every size at every place of a ring, the places where the counters wrap included.
func TestEveryWrap(t *testing.T) {
	const size = 64
	for _, base := range []uint64{0, math.MaxUint64 - 7 - size} {
		for start := uint64(0); start < 2*size; start += 8 {
			for n := 8; n <= size; n += 8 {
				f := newFake(size, base+start)
				c := f.cursor(t)
				want := record(7, n, n)
				f.write(want)
				got := yielded(c)
				c.Commit()
				if len(got) != 1 || !bytes.Equal(got[0], want) || c.Err() != nil || f.tail() != f.head {
					t.Fatalf("from %d: got %x, error %v; want %x", base+start, got, c.Err(), want)
				}
			}
		}
	}
}

func TestRandomTraffic(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{8, 16, 128, 1024} {
		f := newFake(size, 0)
		c := f.cursor(t)
		var want, got [][]byte
		for i := range uint32(20000) {
			n := 8 * (1 + r.IntN(size/8))
			if b := record(i, n, n); f.write(b) {
				want = append(want, b)
			}
			switch r.IntN(3) {
			case 0:
				got = append(got, yielded(c)...)
				c.Commit()
			case 1: // a drain in pieces
				if c.Next() {
					got = append(got, bytes.Clone(c.Record()))
				}
			}
		}
		got = append(got, yielded(c)...)
		c.Commit()
		got = append(got, yielded(c)...)
		if fmt.Sprintf("%x", got) != fmt.Sprintf("%x", want) || c.Err() != nil {
			t.Errorf("ring of %d: %d records out, %d in, error %v", size, len(got), len(want), c.Err())
		}
		if len(want) < 1000 {
			t.Errorf("ring of %d: only %d records fitted", size, len(want))
		}
	}
}

func TestCorruptRing(t *testing.T) {
	good := record(1, 16, 16)
	tests := []struct {
		name string
		bad  []byte
		want Error
		good int    // records yielded before the bad one
		head uint64 // if not 0, what the kernel claims to have written
	}{
		{name: "size 0", bad: record(9, 16, 0), want: Error{Pos: 16, Size: 0, Lost: 16, Reason: "impossible record size 0"}, good: 1},
		{name: "size 7", bad: record(9, 16, 7), want: Error{Pos: 16, Size: 7, Lost: 16, Reason: "impossible record size 7"}, good: 1},
		{name: "size 12", bad: record(9, 16, 12), want: Error{Pos: 16, Size: 12, Lost: 16, Reason: "impossible record size 12"}, good: 1},
		{name: "beyond the head", bad: record(9, 16, 24),
			want: Error{Pos: 16, Size: 24, Lost: 16, Reason: "record of 24 bytes with 16 left"}, good: 1},
		{name: "less than a header", bad: record(9, 4, 4), want: Error{Pos: 16, Lost: 4, Reason: "4 bytes are less than a header"}, good: 1},
		{name: "more than the ring", head: 80, want: Error{Pos: 0, Lost: 80, Reason: "80 bytes in a ring of 64"}},
		{name: "head behind tail", head: math.MaxUint64 - 7,
			want: Error{Pos: 0, Lost: math.MaxUint64 - 7, Reason: fmt.Sprintf("%d bytes in a ring of 64", uint64(math.MaxUint64-7))}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(64, 0)
			c := f.cursor(t)
			f.write(good)
			f.write(tt.bad)
			if tt.head != 0 {
				f.head = tt.head
				binary.LittleEndian.PutUint64(f.meta[headOff:], tt.head)
			}
			recs := yielded(c)
			c.Commit()
			var e *Error
			if !errors.As(c.Err(), &e) || *e != tt.want || len(recs) != tt.good {
				t.Fatalf("%d records, error %+v\nwant %d records, error %+v", len(recs), e, tt.good, tt.want)
			}
			if f.tail() != f.head {
				t.Errorf("tail %d, head %d: not resynchronised", f.tail(), f.head)
			}
		})
	}
}

func TestGoesOnAfterCorruptRecord(t *testing.T) {
	f := newFake(64, 0)
	c := f.cursor(t)
	f.write(record(9, 16, 0))
	yielded(c)
	c.Commit()
	if c.Err() == nil {
		t.Fatal("no error")
	}
	want := record(2, 24, 24)
	f.write(want)
	if got := yielded(c); len(got) != 1 || !bytes.Equal(got[0], want) || c.Err() != nil {
		t.Errorf("got %x, error %v", got, c.Err())
	}
}

func TestNewRefuses(t *testing.T) {
	page := newFake(8, 0).meta
	for name, tt := range map[string]struct {
		meta, data []byte
		want       string
	}{
		"short meta page":   {page[:1032], make([]byte, 64), "meta page"},
		"unaligned":         {page[1:], make([]byte, 64), "aligned"},
		"no data":           {page, nil, "power of two"},
		"4 bytes":           {page, make([]byte, 4), "power of two"},
		"no power of two":   {page, make([]byte, 24), "power of two"},
		"nothing at all":    {nil, nil, "meta page"},
		"odd number of KiB": {page, make([]byte, 3<<10), "power of two"},
	} {
		if _, err := New(tt.meta, tt.data); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestDrainDoesNotAllocate(t *testing.T) {
	f := newFake(64, 0)
	c := f.cursor(t)
	rec := record(1, 24, 24)
	n := testing.AllocsPerRun(100, func() {
		f.write(rec)
		for c.Next() {
			_ = c.Record()
		}
		c.Commit()
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzCursor(f *testing.F) {
	f.Add(record(1, 64, 24), uint64(0), uint64(64))
	f.Add(record(1, 64, 0), uint64(math.MaxUint64), uint64(63))
	f.Fuzz(func(t *testing.T, data []byte, tail, held uint64) {
		ring := newFake(64, tail)
		copy(ring.data, data)
		c := ring.cursor(t)
		binary.LittleEndian.PutUint64(ring.meta[headOff:], tail+held)
		got := uint64(0)
		for c.Next() {
			got += uint64(len(c.Record()))
		}
		var e *Error
		if errors.As(c.Err(), &e) {
			got += e.Lost
		}
		c.Commit()
		if got != held || ring.tail() != tail+held {
			t.Errorf("%d bytes accounted for of %d; tail %d, head %d", got, held, ring.tail(), tail+held)
		}
	})
}
