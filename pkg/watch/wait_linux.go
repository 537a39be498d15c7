//go:build amd64

package watch

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Waiter waits for filled rings, the end of the target and other descriptors at once, and can be woken.
type Waiter struct {
	wake int // eventfd
	fds  []unix.PollFd
}

// NewWaiter returns a Waiter on the given descriptors: each is ready when it can be read, or when its other end is gone.
func NewWaiter(fds ...int) (*Waiter, error) {
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("create an eventfd: %w", err)
	}
	w := &Waiter{wake: wake, fds: []unix.PollFd{{Fd: int32(wake), Events: unix.POLLIN}}}
	for _, fd := range fds {
		w.fds = append(w.fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	return w, nil
}

// Wake ends the present or the next Wait. It may be called from any goroutine until Close.
func (w *Waiter) Wake() {
	one := [8]byte{1}
	// The only possible failure is a full counter, and then a wake-up is pending already.
	_, _ = unix.Write(w.wake, one[:])
}

// Wait returns after at most d (rounded up to a millisecond; negative waits for ever), earlier when a descriptor is
// ready or Wake was called. ready tells which descriptors, in NewWaiter's order, are.
func (w *Waiter) Wait(d time.Duration) (ready []bool, err error) {
	ms := -1
	if d >= 0 {
		ms = int((d + time.Millisecond - 1) / time.Millisecond)
	}
	if _, err := unix.Poll(w.fds, ms); err != nil && !errors.Is(err, unix.EINTR) {
		return nil, fmt.Errorf("wait for hits: %w", err)
	}
	if w.fds[0].Revents != 0 {
		var n [8]byte
		_, _ = unix.Read(w.wake, n[:]) // empties the counter; EAGAIN says that it is empty
	}
	ready = make([]bool, len(w.fds)-1)
	for i := range ready {
		ready[i] = w.fds[i+1].Revents != 0
	}
	return ready, nil
}

// Replace puts another descriptor in the place of the last one.
func (w *Waiter) Replace(fd int) { w.fds[len(w.fds)-1].Fd = int32(fd) }

// Drop waits for the last descriptor no longer: it is never ready again.
func (w *Waiter) Drop() { w.Replace(-1) }

// Close releases the waiter; the descriptors given to it stay open.
func (w *Waiter) Close() { unix.Close(w.wake) }
