//go:build amd64

package watch

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"xw/pkg/ring"
)

// A hit takes 2.3 us on a fast machine, some 10 us in most virtual ones, and its record 336 bytes: 35 to 150 MB/s and CPU
// flat out. A ring of 16 MiB lasts at least 110 ms, longer than a reader waits for its turn on a busy machine. It is memory
// that cannot be swapped out, so that on many CPUs all rings together, of which few are in use at a time, count more.
const (
	largeRing = 16 << 20
	smallRing = 4 << 20
	allRings  = 32 << 20 // the rings are large as long as they take no more than this
)

// ringSize is the data size of each ring if none was asked for.
func ringSize(rings int) int {
	size := largeRing
	for size > smallRing && size*rings > allRings {
		size /= 2
	}
	return size
}

// watermarkShare is the part of a ring that is full when the kernel wakes the reader. The wake-up is paid for by the
// watched thread, so it has to be rare; a quarter leaves three quarters for the time until the reader runs.
const watermarkShare = 4

// eventRing is the ring that some events write to: all those on one CPU, or in scope thread those on one thread.
type eventRing struct {
	number int    // names it in chunks: the CPU, or in scope thread a number of its own
	owner  *event // its descriptor is polled
	mem    []byte
	cursor *ring.Cursor
}

// mapRing maps an event's ring.
func mapRing(number int, owner *event, size int) (*eventRing, error) {
	page := os.Getpagesize()
	mem, err := unix.Mmap(owner.fd, 0, page+size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	cursor, err := ring.New(mem[:page], mem[page:])
	if err != nil {
		unix.Munmap(mem)
		return nil, err
	}
	return &eventRing{number: number, owner: owner, mem: mem, cursor: cursor}, nil
}

func (r *eventRing) close() {
	unix.Munmap(r.mem)
	r.owner.close()
}

// openRings opens one ring for each CPU, each owned by an event from open. While the kernel refuses the memory the
// size is halved; the size that it took is returned.
func openRings(cpus []int, size int, open func(cpu int) (*event, error)) (_ []*eventRing, _ int, err error) {
	var rings []*eventRing
	closeAll := func() {
		for _, r := range rings {
			r.close()
		}
		rings = nil
	}
	for i := 0; i < len(cpus); i++ {
		owner, err := open(cpus[i])
		if err != nil {
			closeAll()
			return nil, 0, err
		}
		r, err := mapRing(cpus[i], owner, size)
		if err == nil {
			rings = append(rings, r)
			continue
		}
		owner.close()
		closeAll()
		if !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.ENOMEM) {
			return nil, 0, fmt.Errorf("map the ring of cpu %d: %w", cpus[i], err)
		}
		if size /= 2; size < os.Getpagesize() {
			return nil, 0, lockedMemoryError(len(cpus), err)
		}
		i = -1
	}
	return rings, size, nil
}

// onlineCPUs lists the CPUs that are online. runtime.NumCPU will not do: it is the number this process may run on.
func onlineCPUs() ([]int, error) {
	b, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return nil, fmt.Errorf("list the CPUs: %w", err)
	}
	var cpus []int
	for part := range strings.SplitSeq(strings.TrimSpace(string(b)), ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		last := first
		if err == nil && isRange {
			last, err = strconv.Atoi(to)
		}
		if err != nil {
			return nil, fmt.Errorf("list the CPUs: %q: %w", b, err)
		}
		for c := first; c <= last; c++ {
			cpus = append(cpus, c)
		}
	}
	return cpus, nil
}

// ahead looks at what a ring holds, and leaves it there.
func (r *eventRing) ahead() (*ring.Cursor, error) {
	page := os.Getpagesize()
	return ring.New(r.mem[:page], r.mem[page:])
}

// records reads a ring: a *ring.Cursor or a *ring.BPFCursor.
type records interface {
	Next() bool
	Record() []byte
	Commit()
	Err() error
}

// drain yields the records that a ring holds now, while room says so, and frees their place.
func drain(r records, room func() bool, each func(rec []byte)) error {
	if !room() {
		return nil // and not the error of the drain before
	}
	for r.Next() {
		each(r.Record())
		if !room() {
			break
		}
	}
	r.Commit()
	return r.Err()
}

// pollSet is an epoll instance with all rings, so that a waiter has one descriptor to look at however the rings change.
type pollSet struct{ fd int }

func newPollSet() (*pollSet, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create an epoll instance: %w", err)
	}
	return &pollSet{fd: fd}, nil
}

func (p *pollSet) add(r *eventRing) error {
	ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(r.owner.fd)}
	if err := unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, r.owner.fd, &ev); err != nil {
		return fmt.Errorf("watch ring %d: %w", r.number, err)
	}
	return nil
}

// addHits adds a ring of hits. It counts as ready from a wake-up by a program until dropEnded has seen that: as long as it held
// anything, otherwise.
func (p *pollSet) addHits(r *hitRing) error {
	ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(r.buffer.FD())}
	if err := unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, r.buffer.FD(), &ev); err != nil {
		return fmt.Errorf("watch the ring of hits on cpu %d: %w", r.number, err)
	}
	return nil
}

// dropEnded takes out the rings whose owner's thread has ended: they would be ready for ever.
func (p *pollSet) dropEnded() {
	var events [64]unix.EpollEvent
	for {
		n, err := unix.EpollWait(p.fd, events[:], 0)
		if err != nil || n == 0 {
			return
		}
		ended := 0
		for _, ev := range events[:n] {
			if ev.Events&unix.EPOLLHUP != 0 {
				ended++
				_ = unix.EpollCtl(p.fd, unix.EPOLL_CTL_DEL, int(ev.Fd), nil) // it may have been closed meanwhile
			}
		}
		if ended == 0 {
			return
		}
	}
}

func (p *pollSet) close() { unix.Close(p.fd) }
