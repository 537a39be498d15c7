package stage

import (
	"context"
	"io"
	"os"
	"sync"
)

// blockSize is what is read at a time. It equals the capacity of a pipe, so that one read empties a full one.
const blockSize = 64 << 10

// Interruptible returns a reader of r whose Read returns context.Cause(ctx) as soon as the stage's context is done, even
// while a read of r hangs. The reader is not for concurrent use.
//
// A read of a pipe cannot be ended from outside (O_NONBLOCK would change the pipe for all who hold it). Of a file the
// reader waits beforehand, together with the context; of anything else, and where that is not possible, a goroutine reads
// one block ahead. The goroutine costs a switch of threads on each way of a record through the pipe, some 30 us in a
// virtual machine, and following a pointer is a race against the program.
func (s *Stage) Interruptible(r io.Reader) io.Reader {
	if f, ok := r.(*os.File); ok {
		if p, stop, err := newPolled(s.ctx, f); err == nil {
			s.closing = append(s.closing, stop)
			return p
		}
	}
	return &interruptible{ctx: s.ctx, src: r, full: make(chan block), free: make(chan []byte, 2)}
}

// interruptible hands blocks from a goroutine that reads src to Read, and the empty buffers back.
type interruptible struct {
	ctx   context.Context
	src   io.Reader
	start sync.Once
	full  chan block
	free  chan []byte

	cur  block // what Read works on
	rest []byte
}

type block struct {
	buf []byte
	n   int
	err error
}

func (r *interruptible) Read(p []byte) (int, error) {
	r.start.Do(func() {
		r.free <- make([]byte, blockSize)
		r.free <- make([]byte, blockSize)
		go r.fill()
	})
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	for len(r.rest) == 0 {
		if r.cur.err != nil {
			return 0, r.cur.err
		}
		if r.cur.buf != nil {
			r.free <- r.cur.buf
			r.cur.buf = nil
		}
		select {
		case r.cur = <-r.full:
			r.rest = r.cur.buf[:r.cur.n]
		case <-r.ctx.Done():
			return 0, context.Cause(r.ctx)
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// fill reads src until it fails. It stays in a read that hangs when the context ends; the process is about to end then.
func (r *interruptible) fill() {
	for {
		var buf []byte
		select {
		case buf = <-r.free:
		case <-r.ctx.Done():
			return
		}
		n, err := r.src.Read(buf)
		select {
		case r.full <- block{buf, n, err}:
		case <-r.ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}
