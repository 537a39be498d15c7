package ring

import (
	"fmt"
	"sync/atomic"
)

// recordAlign is what the kernel rounds the size of every record up to, so that a header never wraps.
const recordAlign = 8

// drain is what a reader of either kind of ring knows: where it is, and where the drain ends.
type drain struct {
	head    *uint64 // bytes that were written since the start, modulo 2^64; load with acquire
	tail    *uint64 // bytes that the reader has done with; store with release
	data    []byte
	open    bool   // a drain has begun and is not yet committed
	pos     uint64 // of the next record, counted like head
	end     uint64 // head when the drain began
	rec     []byte
	scratch []byte // a record that wraps, in one piece
	err     error
}

func newDrain(head, tail *uint64, data []byte) drain {
	return drain{head: head, tail: tail, data: data, pos: atomic.LoadUint64(tail)}
}

// Error is a ring whose content cannot be: the rest of the drain was skipped.
type Error struct {
	Pos    uint64 // of the record that cannot be, counted like the ring's head
	Size   uint64 // what its header gives as its size
	Lost   uint64 // bytes skipped
	Reason string
}

// Error says what cannot be.
func (e *Error) Error() string {
	return fmt.Sprintf("read ring: at %d: %s; %d bytes skipped", e.Pos, e.Reason, e.Lost)
}

// begin starts a drain of what the ring holds now, unless one has begun.
func (d *drain) begin() {
	if d.open {
		return
	}
	d.open, d.err = true, nil
	d.reach()
}

// reach lets the drain end where the ring ends now.
func (d *drain) reach() {
	d.end = atomic.LoadUint64(d.head)
	if held := d.end - d.pos; held > uint64(len(d.data)) {
		d.skip(0, fmt.Sprintf("%d bytes in a ring of %d", held, len(d.data)))
	}
}

// skip gives up the rest of the drain: where the next record begins is no longer known.
func (d *drain) skip(size uint64, reason string) bool {
	d.err = &Error{Pos: d.pos, Size: size, Lost: d.end - d.pos, Reason: reason}
	d.pos = d.end
	return false
}

// span is n bytes from pos, in place where they do not wrap.
func (d *drain) span(pos, n uint64) []byte {
	size := uint64(len(d.data))
	start := pos & (size - 1)
	if end := start + n; end <= size {
		return d.data[start:end:end]
	}
	if uint64(len(d.scratch)) < n {
		const largest = 1 << 16 // of the kernel's records, whose size has 16 bits
		d.scratch = make([]byte, max(n, min(size, largest)))
	}
	first := copy(d.scratch[:n], d.data[start:])
	copy(d.scratch[first:n], d.data)
	return d.scratch[:n:n]
}

// Record is the record that Next moved to, header included. It is valid until the next Next or Commit; nothing changes it
// before.
func (d *drain) Record() []byte { return d.rec }

// Commit ends the drain and gives the room of the records yielded or skipped back, all at once: each time that the position
// changes, who writes next has to fetch it from this CPU. Without it the next Next goes on in the same drain.
func (d *drain) Commit() {
	d.rec, d.open = nil, false
	atomic.StoreUint64(d.tail, d.pos)
}

// Err is the *Error that ended the drain early, or nil. It stays until the next drain begins.
func (d *drain) Err() error { return d.err }
