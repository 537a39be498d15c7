package report

import (
	"bufio"
	"io"

	"xw/pkg/wire"
)

// JSONL writes one JSON object for each record of an events stream, as it arrives.
type JSONL struct {
	enc *wire.JSONL
	w   *bufio.Writer
	buf []byte
}

// NewJSONL returns a JSONL to w of the stream that h opens, and writes h.
func NewJSONL(w io.Writer, h *wire.Header) (*JSONL, error) {
	if h.Stream != wire.Events {
		return nil, &StreamError{Stream: h.Stream}
	}
	j := &JSONL{enc: wire.NewJSONL(h.Session.Regs), w: bufio.NewWriterSize(w, 64<<10)}
	return j, j.Write(h)
}

// Write writes one record.
func (j *JSONL) Write(r wire.Record) error {
	j.buf = append(j.enc.Append(j.buf[:0], r), '\n')
	line := j.buf
	if !isPlain(line) {
		line = appendVisible(nil, line)
	}
	_, err := j.w.Write(line)
	return err
}

// Flush passes on what was written.
func (j *JSONL) Flush() error { return j.w.Flush() }
