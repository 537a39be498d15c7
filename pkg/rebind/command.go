package rebind

import (
	"bytes"
	"fmt"
	"io"

	"xw/pkg/wire"
)

type kind int

const (
	none kind = iota
	bind
	unbind
	read
)

// command is one command for xw-open.
type command struct {
	kind  kind
	level int // in its chain
	watch uint32
	addr  wire.Opt // of a bind
	gen   uint64
	cause uint64 // ns, of a bind or unbind
	sent  uint64 // stream time, ns
}

// moves tells whether the command changes where a level is armed.
func (c command) moves() bool { return c.kind == bind || c.kind == unbind }

func (c command) record() wire.Record {
	switch c.kind {
	case bind:
		return &wire.Bind{Watch: c.watch, Generation: c.gen, Addr: c.addr.V, CauseTime: c.cause}
	case unbind:
		return &wire.Unbind{Watch: c.watch, Generation: c.gen, CauseTime: c.cause}
	default:
		return &wire.Read{Watch: c.watch, Generation: c.gen}
	}
}

// pipeBuf is PIPE_BUF of Linux: a write(2) of as much goes into a pipe whole or not at all (pipe(7)).
const pipeBuf = 4096

// controlStream writes commands, each in a single Write of at most pipeBuf bytes, the stream's header first.
type controlStream struct {
	w      io.Writer
	enc    *encoder
	opened bool
}

func (s *controlStream) send(r wire.Record) error {
	if !s.opened {
		if err := s.write(&wire.Header{Version: wire.Version, Stream: wire.Control}); err != nil {
			return err
		}
		s.opened = true
	}
	return s.write(r)
}

func (s *controlStream) write(r wire.Record) error {
	b, err := s.enc.encode(r)
	if err != nil {
		return err
	}
	if len(b) > pipeBuf {
		return fmt.Errorf("write control: %s: %d bytes, at most %d go into a pipe whole", r.Kind(), len(b), pipeBuf)
	}
	if _, err := s.w.Write(b); err != nil {
		return fmt.Errorf("write control: %s: %w", r.Kind(), err)
	}
	return nil
}

// encoder makes the bytes of single records. It lasts because a wire.Writer takes memory that would cost the process more
// time than all else that lies between a store and the command that it leads to.
type encoder struct {
	buf bytes.Buffer
	w   *wire.Writer
}

func newEncoder() *encoder {
	e := &encoder{}
	e.w = wire.NewWriter(&e.buf)
	return e
}

// encode returns the bytes of r, which are valid until the next call.
func (e *encoder) encode(r wire.Record) ([]byte, error) {
	e.buf.Reset()
	if err := e.w.Write(r); err != nil {
		return nil, err
	}
	if err := e.w.Flush(); err != nil {
		return nil, err
	}
	return e.buf.Bytes(), nil
}
