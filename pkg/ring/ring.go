// Package ring reads the ring that the kernel shares with the owner of a perf event. It works on the mapped memory
// alone and owns nothing: who mapped it unmaps it, after the last use of the Cursor. The protocol is that of struct
// perf_event_mmap_page in include/uapi/linux/perf_event.h and of perf_event_open(2).
package ring

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"xw/pkg/perfabi"
)

// Offsets in struct perf_event_mmap_page, the page before the data.
const (
	headOff = 1024 // data_head: bytes that the kernel has written since the start, modulo 2^64
	tailOff = 1032 // data_tail: bytes that the reader has done with
	metaMin = tailOff + 8
)

// recordAlign is what the kernel rounds the size of every record up to, so that a header never wraps.
const recordAlign = 8

// Cursor yields the records of one ring, a drain at a time:
//
//	for c.Next() {
//		use(c.Record())
//	}
//	c.Commit()
//	if err := c.Err(); err != nil { ... }
//
// A drain covers what the ring held when it began, so that it ends however fast the kernel writes. A Cursor is the
// ring's only reader and is not for concurrent use.
type Cursor struct {
	head    *uint64 // the kernel's; load with acquire
	tail    *uint64 // ours; store with release
	data    []byte
	open    bool   // a drain has begun and is not yet committed
	pos     uint64 // of the next record, counted like head
	end     uint64 // head when the drain began
	rec     []byte
	scratch []byte // a record that wraps, in one piece
	err     error
}

// New returns a Cursor on a mapped ring: meta is its first page, data the rest, a power of two of at least 8 bytes. The
// memory must stay mapped while the Cursor is used.
func New(meta, data []byte) (*Cursor, error) {
	switch {
	case len(meta) < metaMin:
		return nil, fmt.Errorf("ring: meta page of %d bytes, at least %d are needed", len(meta), metaMin)
	case uintptr(unsafe.Pointer(&meta[0]))%8 != 0:
		return nil, errors.New("ring: meta page is not aligned to 8 bytes")
	case len(data) < recordAlign || len(data)&(len(data)-1) != 0:
		return nil, fmt.Errorf("ring: data of %d bytes, expected a power of two of at least %d", len(data), recordAlign)
	}
	c := &Cursor{
		head: (*uint64)(unsafe.Pointer(&meta[headOff])),
		tail: (*uint64)(unsafe.Pointer(&meta[tailOff])),
		data: data,
	}
	c.pos = atomic.LoadUint64(c.tail)
	return c, nil
}

// Error is a ring whose content cannot be: the rest of the drain was skipped.
type Error struct {
	Pos    uint64 // of the record that cannot be, counted like data_head
	Size   uint64 // what its header gives as its size
	Lost   uint64 // bytes skipped
	Reason string
}

// Error says what cannot be.
func (e *Error) Error() string {
	return fmt.Sprintf("read ring: at %d: %s; %d bytes skipped", e.Pos, e.Reason, e.Lost)
}

// Next moves to the next record. It returns false when the drain is over: at its end, or with an error, see Err.
func (c *Cursor) Next() bool {
	c.rec = nil
	c.Begin()
	left := c.end - c.pos
	if left == 0 {
		return false
	}
	if left < perfabi.HeaderSize {
		return c.skip(0, fmt.Sprintf("%d bytes are less than a header", left))
	}
	// The memory is shared: the size is read once.
	size := uint64(perfabi.PeekSize(c.span(c.pos, perfabi.HeaderSize)))
	switch {
	case size < perfabi.HeaderSize || size%recordAlign != 0:
		return c.skip(size, fmt.Sprintf("impossible record size %d", size))
	case size > left:
		return c.skip(size, fmt.Sprintf("record of %d bytes with %d left", size, left))
	}
	c.rec = c.span(c.pos, size)
	c.pos += size
	return true
}

// Begin starts a drain of what the ring holds now, unless one has begun. Next does it too.
func (c *Cursor) Begin() {
	if c.open {
		return
	}
	c.open, c.err = true, nil
	c.end = atomic.LoadUint64(c.head)
	if held := c.end - c.pos; held > uint64(len(c.data)) {
		c.skip(0, fmt.Sprintf("%d bytes in a ring of %d", held, len(c.data)))
	}
}

// skip gives up the rest of the drain: where the next record begins is no longer known.
func (c *Cursor) skip(size uint64, reason string) bool {
	c.err = &Error{Pos: c.pos, Size: size, Lost: c.end - c.pos, Reason: reason}
	c.pos = c.end
	return false
}

// span is n bytes from pos, in place where they do not wrap.
func (c *Cursor) span(pos, n uint64) []byte {
	start := pos & uint64(len(c.data)-1)
	if end := start + n; end <= uint64(len(c.data)) {
		return c.data[start:end:end]
	}
	if c.scratch == nil {
		c.scratch = make([]byte, min(len(c.data), 1<<16))
	}
	first := copy(c.scratch[:n], c.data[start:])
	copy(c.scratch[first:n], c.data)
	return c.scratch[:n:n]
}

// Record is the record that Next moved to, header included. It is valid until the next Next or Commit; the kernel does
// not change it before.
func (c *Cursor) Record() []byte { return c.rec }

// Commit ends the drain and gives the room of the records yielded or skipped back to the kernel. Without it the next
// Next goes on in the same drain.
func (c *Cursor) Commit() {
	c.rec, c.open = nil, false
	atomic.StoreUint64(c.tail, c.pos)
}

// Err is the *Error that ended the drain early, or nil. It stays until the next drain begins.
func (c *Cursor) Err() error { return c.err }
