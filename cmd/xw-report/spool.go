package main

import "io"

const (
	// spoolBlock is what is read at a time: the capacity of a pipe.
	spoolBlock = 64 << 10
	// spoolBlocks bounds what is kept of the stream, 32 MiB, while a view is being made. The first one may read the
	// debugging information of a large program for a second or two, in which xw-open must not lose hits for a full pipe.
	spoolBlocks = 512
)

// spool reads ahead of its reader.
type spool struct {
	full chan []byte
	free chan []byte
	rest []byte
	buf  []byte // what rest is part of
	err  error  // valid once full is closed
}

func newSpool(r io.Reader) *spool {
	s := &spool{full: make(chan []byte, spoolBlocks), free: make(chan []byte, spoolBlocks)}
	go s.fill(r)
	return s
}

// fill reads r to its end. It hangs for ever if the spool is full and no longer read, when the process is about to end.
func (s *spool) fill(r io.Reader) {
	defer close(s.full)
	for s.err == nil {
		var buf []byte
		select {
		case buf = <-s.free:
		default:
		}
		if buf == nil {
			buf = make([]byte, spoolBlock)
		}
		var n int
		n, s.err = r.Read(buf[:spoolBlock])
		if n > 0 {
			s.full <- buf[:n]
		}
	}
}

func (s *spool) Read(p []byte) (int, error) {
	if len(s.rest) == 0 {
		select {
		case s.free <- s.buf:
		default:
		}
		var ok bool
		if s.buf, ok = <-s.full; !ok {
			return 0, s.err
		}
		s.rest = s.buf
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}
