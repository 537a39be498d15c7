// Package ring reads the ring that the kernel shares with the owner of a perf event. It works on the mapped memory
// alone and owns nothing: who mapped it unmaps it, after the last use of the Cursor. The protocol is that of struct
// perf_event_mmap_page in include/uapi/linux/perf_event.h and of perf_event_open(2).
package ring

import (
	"errors"
	"fmt"
	"unsafe"

	"xw/pkg/perfabi"
)

// Offsets in struct perf_event_mmap_page, the page before the data.
const (
	headOff = 1024 // data_head: bytes that the kernel has written since the start, modulo 2^64
	tailOff = 1032 // data_tail: bytes that the reader has done with
	metaMin = tailOff + 8
)

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
type Cursor struct{ drain }

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
	return &Cursor{newDrain((*uint64)(unsafe.Pointer(&meta[headOff])), (*uint64)(unsafe.Pointer(&meta[tailOff])), data)}, nil
}

// Next moves to the next record. It returns false when the drain is over: at its end, or with an error, see Err.
func (c *Cursor) Next() bool {
	c.rec = nil
	c.begin()
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
func (c *Cursor) Begin() { c.begin() }
