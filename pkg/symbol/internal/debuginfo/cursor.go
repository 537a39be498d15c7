package debuginfo

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
)

// window is how much of a section a cursor reads at once: large enough that walking a unit costs few system calls,
// small enough that reading one entry costs little.
const window = 8 << 10

// cursor reads little-endian values from a section through a window, so that no section is ever held in memory as a
// whole. The first error sticks: from then on everything reads as zero.
type cursor struct {
	src  *io.SectionReader
	buf  []byte
	base int64 // section offset of buf[0]
	pos  int   // next byte in buf
	end  int64 // section offset that reading must not pass
	err  error
}

// newCursor returns a cursor over [off, end) of src, cut to the section; a nil section is empty.
func newCursor(src *io.SectionReader, off, end int64) *cursor {
	c := &cursor{src: src, base: off}
	if src != nil {
		c.end = min(end, src.Size())
	}
	if off < 0 || off > c.end {
		c.base, c.end = 0, 0
		c.fail("offset out of range")
	}
	return c
}

func (c *cursor) offset() int64 { return c.base + int64(c.pos) }

func (c *cursor) left() int64 {
	if c.err != nil {
		return 0
	}
	return c.end - c.offset()
}

func (c *cursor) fail(cause string) {
	if c.err == nil {
		c.err = fmt.Errorf("at offset %#x: %s", c.offset(), cause)
	}
}

// seek moves to a section offset at or before end; the window stays when the target is inside.
func (c *cursor) seek(off int64) {
	switch {
	case off < 0 || off > c.end:
		c.fail("offset out of range")
	case off >= c.base && off <= c.base+int64(len(c.buf)):
		c.pos = int(off - c.base)
	default:
		c.base, c.pos, c.buf = off, 0, c.buf[:0]
	}
}

// need makes the next n bytes available and reports whether they exist.
func (c *cursor) need(n int) bool {
	if c.err != nil {
		return false
	}
	if c.pos+n <= len(c.buf) {
		return true
	}
	if int64(n) > c.left() {
		c.fail("unexpected end")
		return false
	}
	return c.fill(n)
}

// fill moves the window to the current position, with at least n bytes in it.
func (c *cursor) fill(n int) bool {
	at := c.offset()
	size := int(min(int64(max(n, window)), c.end-at))
	if cap(c.buf) < size {
		c.buf = make([]byte, size)
	}
	c.base, c.pos, c.buf = at, 0, c.buf[:size]
	if got, err := c.src.ReadAt(c.buf, at); got < size {
		c.err = fmt.Errorf("at offset %#x: %w", at, err)
		return false
	}
	return true
}

// uint reads an unsigned value of n bytes, 0 to 8.
func (c *cursor) uint(n int) uint64 {
	if !c.need(n) {
		return 0
	}
	b := c.buf[c.pos : c.pos+n]
	c.pos += n
	switch n {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.LittleEndian.Uint16(b))
	case 4:
		return uint64(binary.LittleEndian.Uint32(b))
	case 8:
		return binary.LittleEndian.Uint64(b)
	}
	var v uint64
	for i := n - 1; i >= 0; i-- {
		v = v<<8 | uint64(b[i])
	}
	return v
}

func (c *cursor) u8() uint8 {
	if c.err == nil && c.pos < len(c.buf) {
		b := c.buf[c.pos]
		c.pos++
		return b
	}
	return uint8(c.uint(1))
}

// uleb reads an unsigned LEB128; bits beyond 64 are dropped.
func (c *cursor) uleb() uint64 {
	var v uint64
	for shift := 0; ; shift += 7 {
		b := c.u8()
		if shift < 64 {
			v |= uint64(b&0x7f) << shift
		}
		if b&0x80 == 0 {
			return v
		}
	}
}

func (c *cursor) sleb() int64 {
	var v int64
	for shift := 0; ; shift += 7 {
		b := c.u8()
		if shift < 64 {
			v |= int64(b&0x7f) << shift
		}
		if b&0x80 == 0 {
			if b&0x40 != 0 && shift+7 < 64 {
				v |= -1 << (shift + 7)
			}
			return v
		}
	}
}

func (c *cursor) skip(n uint64) {
	switch {
	case c.err != nil:
	case n <= uint64(len(c.buf)-c.pos):
		c.pos += int(n)
	case n > uint64(c.left()):
		c.fail("unexpected end")
	default:
		c.seek(c.offset() + int64(n))
	}
}

// skipString moves behind the next NUL.
func (c *cursor) skipString() {
	for c.need(1) {
		if i := bytes.IndexByte(c.buf[c.pos:], 0); i >= 0 {
			c.pos += i + 1
			return
		}
		c.pos = len(c.buf)
	}
}

// unitLength reads an initial length: the number of bytes that follow, and whether the 64-bit format is used.
func (c *cursor) unitLength() (n uint64, is64 bool) {
	switch n = c.uint(4); {
	case n == 0xffffffff:
		return c.uint(8), true
	case n >= 0xfffffff0:
		c.fail("reserved unit length")
	}
	return n, false
}

// maxString bounds a string; a longer one is unknown.
const maxString = 64 << 10

// stringAt returns the NUL-terminated string at off, "" if there is none.
func stringAt(src *io.SectionReader, off uint64) string {
	if src == nil || off >= uint64(src.Size()) {
		return ""
	}
	for n := int64(128); ; n *= 4 {
		b := make([]byte, min(n, src.Size()-int64(off)))
		if got, _ := src.ReadAt(b, int64(off)); got < len(b) {
			return ""
		}
		if i := bytes.IndexByte(b, 0); i >= 0 {
			return string(b[:i])
		}
		if int64(len(b)) < n || n > maxString {
			return ""
		}
	}
}
