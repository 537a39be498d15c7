package wire

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// TextWriter writes the text twin of a stream, a line a record, for people and for golden files.
type TextWriter struct {
	w     io.Writer
	enc   *encoder
	dec   *decoder
	print textPrinter
	err   error
}

// NewTextWriter returns a TextWriter on w.
func NewTextWriter(w io.Writer) *TextWriter {
	return &TextWriter{w: w, enc: newEncoder(), dec: newDecoder()}
}

// Write implements Sink.
func (t *TextWriter) Write(r Record) error {
	t.enc.buf = t.enc.buf[:0]
	if err := t.enc.encode(r); err != nil {
		return fmt.Errorf("write stream: %s: %w", r.Kind(), err)
	}
	return t.WriteRaw(t.enc.buf)
}

// WriteRaw implements Sink. What the line's fields cannot say (an unknown kind, fields that this version does not know,
// integers in a longer form than needed) is kept as raw=HEX at the end of the line.
func (t *TextWriter) WriteRaw(raw []byte) error {
	if t.err != nil {
		return t.err
	}
	var s scanner
	whole, err := s.advance(raw)
	if err == nil && (!whole || s.pos < len(raw)) {
		err = errors.New("not the bytes of one record")
	}
	if err != nil {
		return fmt.Errorf("write stream: %w", err)
	}
	if err := t.line(raw); err != nil {
		return fmt.Errorf("write stream: %w", err)
	}
	if len(t.print.dst) < bufferSize {
		return nil
	}
	return t.Flush()
}

// line appends the line of a record.
func (t *TextWriter) line(raw []byte) error {
	r, err := t.dec.decode(raw)
	if err != nil {
		return err
	}
	if _, ok := r.(*Unknown); ok {
		t.print.dst = append(t.print.dst, "unknown"...)
		t.appendRaw(raw)
		return nil
	}
	start := len(t.print.dst)
	if err := t.print.append(t.dec.kinds[r.Kind()], r); err != nil {
		t.print.dst = t.print.dst[:start]
		return err
	}
	if t.sameEncoding(r, raw) {
		t.print.dst = append(t.print.dst, '\n')
	} else {
		t.appendRaw(raw)
	}
	return nil
}

// sameEncoding reports whether writing r again gives raw.
func (t *TextWriter) sameEncoding(r Record, raw []byte) bool {
	start := len(t.enc.buf)
	defer func() { t.enc.buf = t.enc.buf[:start] }()
	return t.enc.encode(r) == nil && bytes.Equal(t.enc.buf[start:], raw)
}

func (t *TextWriter) appendRaw(raw []byte) {
	t.print.dst = append(t.print.dst, " raw="...)
	t.print.dst = hex.AppendEncode(t.print.dst, raw)
	t.print.dst = append(t.print.dst, '\n')
}

// Flush implements Sink.
func (t *TextWriter) Flush() error {
	if t.err != nil || len(t.print.dst) == 0 {
		return t.err
	}
	n, err := t.w.Write(t.print.dst)
	if err == nil && n < len(t.print.dst) {
		err = io.ErrShortWrite
	}
	t.print.dst = t.print.dst[:0]
	if err != nil {
		t.err = fmt.Errorf("write stream: %w", err)
	}
	return t.err
}

// textPrinter appends the text of a record to dst. It is the visitor of the record that it prints.
type textPrinter struct {
	dst    []byte
	fields []Field
	field  int
	err    error
}

func (t *textPrinter) append(info *kindInfo, r Record) error {
	t.fields, t.field, t.err = info.Fields, 0, nil
	t.dst = append(t.dst, info.Kind...)
	r.visit(t)
	return t.err
}

// name appends the name of the next field.
func (t *textPrinter) name() Field {
	f := t.fields[t.field]
	t.field++
	t.dst = append(append(append(t.dst, ' '), f.Name...), '=')
	return f
}

func (t *textPrinter) uint(f Field, v uint64) {
	if f.Hex {
		t.dst = strconv.AppendUint(append(t.dst, "0x"...), v, 16)
	} else {
		t.dst = strconv.AppendUint(t.dst, v, 10)
	}
}

func (t *textPrinter) u64(p *uint64)   { t.uint(t.name(), *p) }
func (t *textPrinter) u32(p *uint32)   { t.uint(t.name(), uint64(*p)) }
func (t *textPrinter) boolean(p *bool) { t.name(); t.dst = strconv.AppendBool(t.dst, *p) }
func (t *textPrinter) str(p *string)   { t.name(); t.dst = strconv.AppendQuote(t.dst, *p) }

func (t *textPrinter) opt(p *Opt) {
	f := t.name()
	if p.OK {
		t.uint(f, p.V)
	} else {
		t.dst = append(t.dst, "nil"...)
	}
}

func (t *textPrinter) bin(p *[]byte) {
	f := t.name()
	switch {
	case *p == nil && f.Nil:
		t.dst = append(t.dst, "nil"...)
	case len(*p) == 0:
		t.dst = append(t.dst, `""`...)
	default:
		t.dst = hex.AppendEncode(t.dst, *p)
	}
}

func (t *textPrinter) u64s(p *[]uint64) {
	f := t.name()
	if *p == nil {
		t.dst = append(t.dst, "nil"...)
		return
	}
	t.dst = append(t.dst, '[')
	for i, v := range *p {
		if i > 0 {
			t.dst = append(t.dst, ',')
		}
		t.uint(f, v)
	}
	t.dst = append(t.dst, ']')
}

func (t *textPrinter) doc(p any) {
	t.name()
	var err error
	if t.dst, err = appendDoc(t.dst, p); err != nil {
		t.err = err
	}
}

// appendDoc appends a map as JSON in one line, its keys sorted.
func appendDoc(dst []byte, doc any) ([]byte, error) {
	b, err := json.Marshal(portable(doc))
	if err != nil {
		return dst, err
	}
	var sorted any
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	if err := dec.Decode(&sorted); err != nil {
		return dst, err
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(sorted); err != nil {
		return dst, err
	}
	return append(dst, bytes.TrimSuffix(out.Bytes(), []byte("\n"))...), nil
}
