package wire

import (
	"fmt"
	"io"
)

// Sink takes records: a Writer for programs, a TextWriter for people.
type Sink interface {
	// Write adds a record. It keeps nothing of it. A record beyond the limits is refused and not written at all.
	Write(Record) error
	// WriteRaw adds the MessagePack bytes of one record as they are, fields and kinds unknown to this version included.
	WriteRaw([]byte) error
	// Flush hands everything to the underlying writer.
	Flush() error
}

// Writer writes a binary stream. It gathers whole records and writes them when there are 64 KiB of them and in Flush:
// what is flushed after each record arrives in one write(2). After a failed write every call returns that error.
type Writer struct {
	w   io.Writer
	enc *encoder
	err error
}

// NewWriter returns a Writer on w. The first record to write is the header.
func NewWriter(w io.Writer) *Writer {
	enc := newEncoder()
	enc.buf = make(buffer, 0, 2*bufferSize)
	return &Writer{w: w, enc: enc}
}

// Write implements Sink.
func (w *Writer) Write(r Record) error {
	if w.err != nil {
		return w.err
	}
	if err := w.enc.encode(r); err != nil {
		return fmt.Errorf("write stream: %s: %w", r.Kind(), err)
	}
	return w.flushFull()
}

// WriteRaw implements Sink. The bytes must be one whole record: they are not looked at.
func (w *Writer) WriteRaw(raw []byte) error {
	if w.err != nil {
		return w.err
	}
	w.enc.buf = append(w.enc.buf, raw...)
	return w.flushFull()
}

func (w *Writer) flushFull() error {
	if len(w.enc.buf) < bufferSize {
		return nil
	}
	return w.Flush()
}

// Flush implements Sink.
func (w *Writer) Flush() error {
	if w.err != nil || len(w.enc.buf) == 0 {
		return w.err
	}
	n, err := w.w.Write(w.enc.buf)
	if err == nil && n < len(w.enc.buf) {
		err = io.ErrShortWrite
	}
	w.enc.buf = w.enc.buf[:0]
	if err != nil {
		w.err = fmt.Errorf("write stream: %w", err)
	}
	return w.err
}
