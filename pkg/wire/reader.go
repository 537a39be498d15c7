package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// source yields the records of a stream as MessagePack bytes, valid until the next call. At the end of the input it is
// io.EOF, for a bad record a *FormatError along with what there is of its bytes.
type source interface {
	next() (raw []byte, err error)
	position() (offset int64, line int)
	buffered() int
}

// Reader reads a stream, binary or text: the first byte tells.
//
//	for r.Next() {
//		switch rec := r.Record().(type) { ... }
//	}
//	if err := r.Err(); err != nil { ... }
//
// The first record is the *Header, already checked. A record and all its slices belong to the Reader and are used
// again by the next Next; the header alone may be kept. Clone copies what has to last.
type Reader struct {
	input io.Reader
	src   source // nil until the first Next
	dec   *decoder
	rec   Record
	raw   []byte
	began bool // the header was read
	ended bool // the end record was read
	err   error
}

// NewReader returns a Reader on r. It reads nothing before the first Next.
func NewReader(r io.Reader) *Reader {
	return &Reader{input: r, dec: newDecoder()}
}

// Next reads one record. It returns false at the end of the stream and at the first error: see Err.
func (r *Reader) Next() bool {
	r.rec = nil
	if r.err == nil && r.src == nil {
		r.src, r.err = detect(r.input)
	}
	if r.err != nil {
		return false
	}
	r.raw, r.err = r.src.next()
	if r.err != nil {
		r.err = r.explain(r.err)
		return false
	}
	rec, err := r.dec.decode(r.raw)
	if err == nil {
		err = r.place(rec)
	}
	if err != nil {
		r.err = r.explain(r.formatError(err))
		return false
	}
	r.rec = rec
	return true
}

// explain adds to a source's error what only the Reader knows.
func (r *Reader) explain(err error) error {
	var format *FormatError
	switch {
	case errors.Is(err, io.EOF) && !r.ended:
		return fmt.Errorf("read stream: %w: no end record", ErrTruncated)
	case errors.As(err, &format) && !r.began && !errors.Is(err, ErrTruncated):
		format.Err, format.whole = fmt.Errorf("this is no xw stream: %w", format.Err), false
	}
	return err
}

// detect tells text from binary: a record in MessagePack never begins with an ASCII character.
func detect(input io.Reader) (source, error) {
	f := newFramer(input)
	if err := f.fill(); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("read stream: %w: the input is empty", ErrTruncated)
		}
		return nil, fmt.Errorf("read stream: %w", err)
	}
	switch start := f.buf[:f.end]; start[0] {
	case 'x', '#', ' ', '\t', '\r', '\n':
		return newTextSource(io.MultiReader(bytes.NewReader(start), input)), nil
	default:
		return f, nil
	}
}

// place checks that rec stands where its kind may stand.
func (r *Reader) place(rec Record) error {
	header, isHeader := rec.(*Header)
	switch {
	case r.ended:
		return errors.New("data after the end record")
	case r.began && isHeader:
		return errors.New("a second header")
	case r.began:
		_, r.ended = rec.(*End)
		return nil
	case !isHeader:
		return errors.New("it does not begin with a header")
	}
	err := header.check()
	r.began = err == nil
	return err
}

func (h *Header) check() error {
	if h.Version < 1 {
		return fmt.Errorf("version %d, the first is 1", h.Version)
	}
	if !slices.Contains([]string{Raw, Events, Control}, h.Stream) {
		return fmt.Errorf("unknown stream %q", h.Stream)
	}
	return nil
}

func (r *Reader) formatError(err error) error {
	offset, line := r.src.position()
	kind, _, _, _ := parseStart(r.raw)
	return &FormatError{Offset: offset, Line: line, Kind: printable(kind), Err: err, whole: r.began && !r.ended}
}

// Record returns the record that Next read.
func (r *Reader) Record() Record { return r.rec }

// Raw returns the MessagePack bytes of the record that Next read, with fields and kinds that this version does not
// know; of a text stream the encoded form. After an error it returns what is there of the bad record. The bytes are
// valid until the next Next.
func (r *Reader) Raw() []byte { return r.raw }

// Err returns nil after a stream that is whole, up to its end record. Otherwise it returns the error that stopped Next:
// a *FormatError for bytes that are no stream, an error that matches ErrTruncated where the input stops too early
// (inside a record it also matches io.ErrUnexpectedEOF), or the input's own error.
func (r *Reader) Err() error {
	if errors.Is(r.err, io.EOF) {
		return nil
	}
	return r.err
}

// Recover makes Next go on after an error that concerns one record only, whose end is known: a field of the wrong type,
// or a bad line of text. It returns false if the error is of another kind; then the place of the next record is unknown.
func (r *Reader) Recover() bool {
	var format *FormatError
	if !errors.As(r.err, &format) || !format.whole {
		return false
	}
	r.err = nil
	return true
}

// Offset returns where the record that Next read, or the one that failed, begins: bytes from the start of the input.
func (r *Reader) Offset() int64 {
	if r.src == nil {
		return 0
	}
	offset, _ := r.src.position()
	return offset
}

// Buffered returns how many bytes have been read and not yet delivered. It is 0 when they do not hold a whole record:
// Next may then block, and it is time to flush what was made of the records before.
func (r *Reader) Buffered() int {
	if r.src == nil {
		return 0
	}
	return r.src.buffered()
}

// Ended reports whether the end record was read.
func (r *Reader) Ended() bool { return r.ended }

// Clone returns a copy of r that shares no memory with it.
func Clone(r Record) (Record, error) {
	if u, ok := r.(*Unknown); ok {
		return &Unknown{u.Name}, nil
	}
	e := newEncoder()
	if err := e.append(r); err != nil {
		return nil, fmt.Errorf("clone: %s: %w", r.Kind(), err)
	}
	return newDecoder().decode(e.buf)
}

// Parser decodes messages that arrive whole, such as the commands on a control FIFO. The zero Parser is ready.
type Parser struct{ dec *decoder }

// Parse decodes the record that b begins with and returns its length. A cut record is an error like any other. The record
// is used again by the next call and shares memory with b.
func (p *Parser) Parse(b []byte) (Record, int, error) {
	if p.dec == nil {
		p.dec = newDecoder()
	}
	var s scanner
	whole, err := s.advance(b)
	if err == nil && !whole {
		err = errCut
	}
	if err != nil {
		return nil, 0, err
	}
	rec, err := p.dec.decode(b[:s.pos])
	if err != nil {
		return nil, 0, err
	}
	return rec, s.pos, nil
}

// printable returns the start of a kind that may hold anything, for messages.
func printable(kind []byte) string {
	const most = 32
	if len(kind) > most {
		kind = kind[:most]
	}
	quoted := strconv.Quote(string(kind))
	return quoted[1 : len(quoted)-1]
}
