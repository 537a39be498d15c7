package perfabi

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
)

// Error is a record that does not have the shape its layout asks for.
type Error struct {
	Record    uint32 // type of the record, a Record constant
	Field     string // the field that did not fit
	Needed    uint64 // bytes of a record that ends with that field (and its trailer); math.MaxUint64 if beyond counting
	Available uint64 // bytes of the record
	Reason    string // what is wrong when it is not a lack of bytes; else empty
}

// Error names record, field and what is wrong.
func (e *Error) Error() string {
	reason := e.Reason
	if reason == "" {
		reason = fmt.Sprintf("needs %d bytes, %d available", e.Needed, e.Available)
	}
	return fmt.Sprintf("decode perf record: %s: %s: %s", recordName(e.Record), e.Field, reason)
}

func recordName(typ uint32) string {
	switch typ {
	case RecordSample:
		return "sample"
	case RecordLost:
		return "lost"
	case RecordLostSamples:
		return "lost_samples"
	case RecordComm:
		return "comm"
	case RecordFork:
		return "fork"
	case RecordExit:
		return "exit"
	case RecordThrottle:
		return "throttle"
	case RecordUnthrottle:
		return "unthrottle"
	case RecordMmap2:
		return "mmap2"
	default:
		return fmt.Sprintf("type %d", typ)
	}
}

// fields reads the fields of one record in order. After the first error it returns zeros; err has that error.
type fields struct {
	b       []byte
	off     int
	trailer int // bytes of the record after b, which errors count
	record  uint32
	err     *Error
}

// take is the next n bytes, nil after an error.
func (f *fields) take(n uint64, field string) []byte {
	if f.err != nil {
		return nil
	}
	if n > uint64(len(f.b)-f.off) {
		f.short(n, field)
		return nil
	}
	b := f.b[f.off : f.off+int(n) : f.off+int(n)]
	f.off += int(n)
	return b
}

func (f *fields) short(n uint64, field string) {
	needed, carry := bits.Add64(uint64(f.off+f.trailer), n, 0)
	if carry != 0 {
		needed = math.MaxUint64
	}
	f.err = &Error{Record: f.record, Field: field, Needed: needed, Available: uint64(len(f.b) + f.trailer)}
}

func (f *fields) fail(field, reason string) {
	if f.err == nil {
		f.err = &Error{Record: f.record, Field: field, Needed: uint64(f.off + f.trailer),
			Available: uint64(len(f.b) + f.trailer), Reason: reason}
	}
}

func (f *fields) u32(field string) uint32 {
	b := f.take(4, field)
	if b == nil {
		return 0
	}
	return binary.LittleEndian.Uint32(b)
}

func (f *fields) u32Pair(present bool, field string) (uint32, uint32) {
	if !present {
		return 0, 0
	}
	return f.u32(field), f.u32(field)
}

func (f *fields) u64(field string) uint64 {
	b := f.take(8, field)
	if b == nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

func (f *fields) u64If(present bool, field string) uint64 {
	if !present {
		return 0
	}
	return f.u64(field)
}

// words is the next n u64 values, not nil unless there is an error.
func (f *fields) words(n uint64, field string) Words {
	hi, size := bits.Mul64(n, 8)
	if hi != 0 {
		size = math.MaxUint64
	}
	return Words(f.take(size, field))
}

// rest is all that is left.
func (f *fields) rest() []byte {
	return f.take(uint64(len(f.b)-f.off), "")
}

// cString is the NUL-terminated and NUL-padded string that fills the rest of a body.
func (f *fields) cString(field string) []byte {
	b := f.rest()
	n := bytes.IndexByte(b, 0)
	if n < 0 {
		f.fail(field, "has no end")
		return nil
	}
	return b[:n:n]
}

// end checks that nothing is left.
func (f *fields) end() error {
	if f.err == nil && f.off != len(f.b) {
		f.fail("size", fmt.Sprintf("%d bytes are left over", len(f.b)-f.off))
	}
	if f.err != nil {
		return f.err
	}
	return nil
}
