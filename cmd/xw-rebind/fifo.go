package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	// retryEvery is how often a FIFO that is not ready is tried again.
	retryEvery = 5 * time.Millisecond
	// maxWaiting bounds the writes that wait for the FIFO. There is one for each chain, seldom two.
	maxWaiting = 64
)

// fifo is the writing end of the control FIFO. A write never blocks: while nobody reads the FIFO yet, or it is full, what
// is written waits, and a goroutine delivers it. Each write goes into the FIFO whole or not at all (O_NONBLOCK, and at
// most PIPE_BUF bytes: pipe(7)).
type fifo struct {
	path   string
	closed chan struct{}

	mu       sync.Mutex // protects what follows
	fd       int        // -1 until the FIFO is open
	waiting  [][]byte
	pumping  bool // the goroutine runs
	deadline time.Time
	err      error // why it works no more
}

// errNotReady says that xw-open has not made or opened its end yet.
var errNotReady = errors.New("nobody reads it")

// openFIFO opens the FIFO at path. Where xw-open does not listen yet it waits for that as long as the timeout says, while
// the fifo can already be used.
func openFIFO(path string, timeout time.Duration) (*fifo, error) {
	f := &fifo{path: path, closed: make(chan struct{}), fd: -1, deadline: time.Now().Add(timeout)}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.connect(); f.err != nil {
		return nil, f.err
	}
	f.pump()
	return f, nil
}

// Write sends p, or keeps it until it can be sent.
func (f *fifo) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil && len(f.waiting) == maxWaiting {
		f.err = fmt.Errorf("%q: %w", f.path, syscall.EAGAIN)
	}
	if f.err != nil {
		return 0, f.err
	}
	f.waiting = append(f.waiting, append([]byte(nil), p...))
	f.deliver()
	f.pump()
	if f.err != nil {
		return 0, f.err
	}
	return len(p), nil
}

// Close closes the FIFO. What has not been delivered is dropped.
func (f *fifo) Close() error {
	close(f.closed)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = fmt.Errorf("%q: %w", f.path, fs.ErrClosed)
	}
	if f.fd < 0 {
		return nil
	}
	fd := f.fd
	f.fd = -1
	return syscall.Close(fd)
}

// pump starts the goroutine if there is something for it to do. The lock is held.
func (f *fifo) pump() {
	if f.pumping || !f.unfinished() {
		return
	}
	f.pumping = true
	go func() {
		tick := time.NewTicker(retryEvery)
		defer tick.Stop()
		for again := true; again; {
			select {
			case <-tick.C:
				again = f.retry()
			case <-f.closed:
				return
			}
		}
	}()
}

func (f *fifo) unfinished() bool { return f.err == nil && (f.fd < 0 || len(f.waiting) > 0) }

// retry tries again what could not be done. It returns false when nothing is left to do.
func (f *fifo) retry() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil && f.fd < 0 {
		f.connect()
	}
	f.deliver()
	f.pumping = f.unfinished()
	return f.pumping
}

// connect tries to open the FIFO. The lock is held.
func (f *fifo) connect() {
	fd, err := openWriter(f.path)
	switch {
	case err == nil:
		f.fd = fd
	case !errors.Is(err, errNotReady) || !time.Now().Before(f.deadline):
		f.err = fmt.Errorf("open control: %q: %w", f.path, err)
	}
}

// deliver writes what waits until the FIFO is full. The lock is held.
func (f *fifo) deliver() {
	for f.err == nil && f.fd >= 0 && len(f.waiting) > 0 {
		_, err := ignoringEINTR(func() (int, error) { return syscall.Write(f.fd, f.waiting[0]) })
		if errors.Is(err, syscall.EAGAIN) {
			return
		}
		if err != nil {
			f.err = fmt.Errorf("%q: %w", f.path, err)
			return
		}
		f.waiting = f.waiting[1:]
	}
}

// openWriter opens the FIFO at path for writing, without waiting for a reader, and makes sure that it is a FIFO.
// errNotReady is returned if it is not there yet or has no reader.
func openWriter(path string) (int, error) {
	const mode = syscall.O_WRONLY | syscall.O_NONBLOCK | syscall.O_NOFOLLOW | syscall.O_CLOEXEC
	fd, err := ignoringEINTR(func() (int, error) { return syscall.Open(path, mode, 0) })
	switch {
	case errors.Is(err, syscall.ENOENT):
		return -1, errNotReady
	case errors.Is(err, syscall.ENXIO): // no reader; a socket gives it too
		if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeNamedPipe == 0 {
			return -1, errors.New("not a FIFO")
		}
		return -1, errNotReady
	case errors.Is(err, syscall.ELOOP):
		return -1, errors.New("a symbolic link, not a FIFO")
	case err != nil:
		return -1, err
	}
	var stat syscall.Stat_t
	if err := syscall.Fstat(fd, &stat); err != nil {
		syscall.Close(fd)
		return -1, err
	}
	if stat.Mode&syscall.S_IFMT != syscall.S_IFIFO {
		syscall.Close(fd)
		return -1, errors.New("not a FIFO")
	}
	return fd, nil
}

func ignoringEINTR(f func() (int, error)) (int, error) {
	for {
		n, err := f()
		if !errors.Is(err, syscall.EINTR) {
			return n, err
		}
	}
}
