package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// buffer is memory that the codec writes to without an allocation a record.
type buffer []byte

func (b *buffer) Write(p []byte) (int, error) {
	*b = append(*b, p...)
	return len(p), nil
}

func (b *buffer) WriteByte(c byte) error {
	*b = append(*b, c)
	return nil
}

// encoder appends records to its buffer. It is the visitor of the record that it writes.
type encoder struct {
	kinds map[string]*kindInfo
	last  *kindInfo // of the record before: mostly that of the next one too
	buf   buffer
	enc   *msgpack.Encoder

	fields []Field
	field  int // index of the next field
	hasMap bool
	err    error
}

func newEncoder() *encoder {
	e := &encoder{kinds: kindTable()}
	e.enc = msgpack.NewEncoder(&e.buf)
	e.enc.UseCompactInts(true)
	return e
}

// encode appends r, or leaves the buffer as it was and says why.
func (e *encoder) encode(r Record) error {
	start := len(e.buf)
	if err := e.append(r); err != nil {
		e.buf = e.buf[:start]
		return err
	}
	if err := e.checkLimits(e.buf[start:]); err != nil {
		e.buf = e.buf[:start]
		return err
	}
	return nil
}

// checkLimits refuses what no reader would take. Only a map can break a limit other than the length: the lists in it.
func (e *encoder) checkLimits(raw []byte) error {
	if len(raw) > MaxRecord {
		return errLongRecord
	}
	if !e.hasMap {
		return nil
	}
	var s scanner
	_, err := s.advance(raw)
	return err
}

func (e *encoder) append(r Record) error {
	info := e.last
	if info == nil || info.Kind != r.Kind() {
		info = e.kinds[r.Kind()]
	}
	if info == nil {
		return errors.New("unknown kind")
	}
	e.last, e.fields, e.field, e.hasMap, e.err = info, info.Fields, 0, false, nil
	if info.start == nil {
		begin := len(e.buf)
		e.note(e.enc.EncodeArrayLen(1 + len(info.Fields)))
		e.note(e.enc.EncodeString(info.Kind))
		info.start = bytes.Clone(e.buf[begin:])
	} else {
		e.buf = append(e.buf, info.start...)
	}
	r.visit(e)
	return e.err
}

func (e *encoder) note(err error) {
	if e.err == nil && err != nil {
		e.err = err
	}
}

// next notes the outcome of one field.
func (e *encoder) next(err error) {
	if err != nil {
		e.note(fmt.Errorf("field %s: %w", e.fields[e.field].Name, err))
	}
	e.field++
}

// Numbers and bytes are most of a busy stream, and are appended here and not by the library, which takes several times as long:
// it writes byte by byte through an interface.

func (e *encoder) u64(p *uint64) { e.uint(*p) }
func (e *encoder) u32(p *uint32) { e.uint(uint64(*p)) }

// uint appends a field of the shortest form that holds v.
func (e *encoder) uint(v uint64) {
	e.field++
	switch {
	case v <= math.MaxInt8:
		e.buf = append(e.buf, byte(v))
	case v <= math.MaxUint8:
		e.buf = append(e.buf, msgpcode.Uint8, byte(v))
	case v <= math.MaxUint16:
		e.buf = binary.BigEndian.AppendUint16(append(e.buf, msgpcode.Uint16), uint16(v))
	case v <= math.MaxUint32:
		e.buf = binary.BigEndian.AppendUint32(append(e.buf, msgpcode.Uint32), uint32(v))
	default:
		e.buf = binary.BigEndian.AppendUint64(append(e.buf, msgpcode.Uint64), v)
	}
}

func (e *encoder) null() {
	e.field++
	e.buf = append(e.buf, msgpcode.Nil)
}

// bytes appends a field of bytes.
func (e *encoder) bytes(b []byte) {
	e.field++
	switch n := len(b); {
	case n <= math.MaxUint8:
		e.buf = append(e.buf, msgpcode.Bin8, byte(n))
	case n <= math.MaxUint16:
		e.buf = binary.BigEndian.AppendUint16(append(e.buf, msgpcode.Bin16), uint16(n))
	default:
		e.buf = binary.BigEndian.AppendUint32(append(e.buf, msgpcode.Bin32), uint32(n))
	}
	e.buf = append(e.buf, b...)
}

func (e *encoder) boolean(p *bool) { e.next(e.enc.EncodeBool(*p)) }
func (e *encoder) str(p *string)   { e.next(e.enc.EncodeString(utf8Only(*p))) }

func (e *encoder) opt(p *Opt) {
	if p.OK {
		e.uint(p.V)
	} else {
		e.null()
	}
}

func (e *encoder) bin(p *[]byte) {
	f := &e.fields[e.field]
	switch {
	case *p == nil && f.Nil:
		e.null()
	case f.Max > 0 && len(*p) > f.Max:
		e.next(fmt.Errorf("%d bytes, at most %d are allowed", len(*p), f.Max))
	default:
		e.bytes(*p)
	}
}

func (e *encoder) u64s(p *[]uint64) {
	if *p == nil {
		e.null()
		return
	}
	if len(*p) > MaxItems {
		e.next(fmt.Errorf("%d values, at most %d are allowed", len(*p), MaxItems))
		return
	}
	e.note(e.enc.EncodeArrayLen(len(*p)))
	for _, v := range *p {
		e.note(e.enc.EncodeUint(v))
	}
	e.next(nil)
}

func (e *encoder) doc(p any) {
	e.hasMap = true
	e.next(e.enc.Encode(portable(p)))
}
