package stage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// polled reads a file, and waits with poll(2) until there is something to read or the context is done.
type polled struct {
	ctx     context.Context
	src     *os.File
	stopped *os.File // a pipe that has no writer any more when the context is done
}

func newPolled(ctx context.Context, src *os.File) (_ io.Reader, stop func(), err error) {
	stopped, stopper, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("make a pipe: %w", err)
	}
	cancel := context.AfterFunc(ctx, func() { stopper.Close() })
	stop = func() {
		cancel()
		stopper.Close()
		stopped.Close()
	}
	return &polled{ctx: ctx, src: src, stopped: stopped}, stop, nil
}

func (p *polled) Read(b []byte) (int, error) {
	control(p.src, func(src int) {
		control(p.stopped, func(stopped int) {
			fds := []unix.PollFd{{Fd: int32(src), Events: unix.POLLIN}, {Fd: int32(stopped)}}
			for {
				// Whatever else poll says about the source, a read tells it better.
				if _, err := unix.Poll(fds, -1); !errors.Is(err, unix.EINTR) {
					return
				}
			}
		})
	})
	if p.ctx.Err() != nil {
		return 0, context.Cause(p.ctx)
	}
	return p.src.Read(b)
}
