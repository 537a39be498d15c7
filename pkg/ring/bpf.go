package ring

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"xw/pkg/perfabi"
)

// Of a BPF ring buffer, kernel/bpf/ringbuf.c: the positions are the first word of a page each, and a record has a header of 8
// bytes, of which the first 4 are its length and two flags.
const (
	bpfHeaderSize = 8
	bpfBusy       = 1 << 31 // reserved and not yet submitted
	bpfDiscarded  = 1 << 30
)

// bpfPatience is how often a record is looked at that is being written, some microseconds in all. A program needs a third of
// one; what takes longer is a virtual CPU that its host has given no time.
const bpfPatience = 4000

// BPFCursor yields the perf records that BPF programs have put into a BPF_MAP_TYPE_RINGBUF, a drain at a time, as Cursor
// does for those of the kernel. It is the ring's only reader and is not for concurrent use.
type BPFCursor struct {
	drain
	busy     bool // it ended at a record that was being written for long
	fenced   bool // the record before pos was discarded
	extended bool // it goes on behind where it was to end
}

// NewBPF returns a BPFCursor on a mapped ring buffer: consumer is the page that may be written, producer the page with the
// other position and data the ring behind it, once: the second mapping, which spares readers to put a record together, would
// count as memory of this process as much as the first. The memory must stay mapped while the BPFCursor is used.
func NewBPF(consumer, producer, data []byte) (*BPFCursor, error) {
	switch {
	case len(consumer) < 8 || len(producer) < 8:
		return nil, errors.New("ring: no room for the positions of a BPF ring buffer")
	case uintptr(unsafe.Pointer(&consumer[0]))%8 != 0 || uintptr(unsafe.Pointer(&producer[0]))%8 != 0:
		return nil, errors.New("ring: the positions of a BPF ring buffer are not aligned to 8 bytes")
	case len(data) < bpfHeaderSize || len(data)&(len(data)-1) != 0:
		return nil, fmt.Errorf("ring: data of %d bytes, expected a power of two of at least %d", len(data), bpfHeaderSize)
	}
	return &BPFCursor{drain: newDrain((*uint64)(unsafe.Pointer(&producer[0])), (*uint64)(unsafe.Pointer(&consumer[0])), data)}, nil
}

// Next moves to the next record. It returns false when the drain is over: at its end, at a record that is still being
// written, or with an error, see Err.
func (c *BPFCursor) Next() bool {
	c.rec = nil
	if !c.open {
		c.begin()
		c.busy, c.fenced, c.extended = false, false, false
	}
	for c.rec == nil {
		if c.pos == c.end && !c.extend() || !c.pass() {
			return false
		}
	}
	return true
}

// extend goes on, once, behind a discarded record that the drain has ended with. Such a one stands for a record that a program
// puts behind it before it discards it: that may be as old as the drain, and is there now.
func (c *BPFCursor) extend() bool {
	if !c.fenced || c.extended {
		return false
	}
	c.extended = true
	c.reach()
	return c.pos != c.end
}

// pass moves behind the record at pos; rec is that, unless it was discarded.
func (c *BPFCursor) pass() bool {
	left, start := c.end-c.pos, c.pos&uint64(len(c.data)-1)
	if left < bpfHeaderSize {
		return c.skip(0, fmt.Sprintf("%d bytes are less than a header", left))
	}
	header := c.header(start)
	if header&bpfBusy != 0 {
		c.busy = !c.extended // what comes after an extension is younger than the drain
		return false
	}
	n := uint64(header &^ bpfDiscarded)
	whole := bpfHeaderSize + (n+recordAlign-1)&^(recordAlign-1)
	if whole > left {
		return c.skip(n, fmt.Sprintf("record of %d bytes with %d left", whole, left))
	}
	if c.fenced = header&bpfDiscarded != 0; !c.fenced {
		rec := c.span(c.pos+bpfHeaderSize, n)
		if n < perfabi.HeaderSize || uint64(perfabi.PeekSize(rec)) != n {
			return c.skip(n, fmt.Sprintf("no perf record in %d bytes", n))
		}
		c.rec = rec
	}
	c.pos += whole
	return true
}

// header is that of the record at start, waited for as long as a program may need to submit it.
func (c *BPFCursor) header(start uint64) (header uint32) {
	at := (*uint32)(unsafe.Pointer(&c.data[start]))
	for range bpfPatience {
		if header = atomic.LoadUint32(at); header&bpfBusy == 0 {
			break
		}
	}
	return header
}

// Busy reports that the drain ended at a record that was being written for long: it may be older than what other rings have
// brought since.
func (c *BPFCursor) Busy() bool { return c.busy }
