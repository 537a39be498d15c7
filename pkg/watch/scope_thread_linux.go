//go:build amd64

package watch

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"xw/pkg/perfabi"
)

// threadScope opens each slot once per thread, on whatever CPU it runs, with a ring per thread. A thread that is born
// later is opened when its FORK record is seen; until then it is unwatched, which is a gap.
type threadScope struct {
	set     *Set
	tasks   map[int]*threadEvents
	pending []newThread
	retired [MaxSlots]retiredCount
	size    int // data bytes of each ring
	numbers numbers
}

// threadEvents are the events of one thread.
type threadEvents struct {
	tid   int
	ring  *eventRing
	slots []*event
	ended bool
}

// retiredCount is what the closed events of a slot have counted.
type retiredCount struct{ hits, lost uint64 }

// newThread is a thread whose birth was seen and that has no events yet.
type newThread struct {
	tid  int
	born uint64
}

// numbers hands out small numbers, those that were given back first.
type numbers struct {
	next int
	free []int
}

func (n *numbers) take() int {
	if len(n.free) > 0 {
		i := n.free[len(n.free)-1]
		n.free = n.free[:len(n.free)-1]
		return i
	}
	n.next++
	return n.next - 1
}

func (n *numbers) giveBack(i int) { n.free = append(n.free, i) }

// Sizes of a thread's ring. All together take threadRingTotal where the threads are few, so that xw-open stays small;
// a thread alone on its CPU fills 64 KiB in 2 ms in a virtual machine.
const (
	threadRingTotal = 32 << 20
	threadRingMin   = 64 << 10
	threadRingMax   = 1 << 20
)

// defaultMaxSamplers is the number of watchpoints in scope thread that are opened without --max-samplers: each costs a
// descriptor, and each thread a ring.
const defaultMaxSamplers = 256

func newThreadScope(s *Set) *threadScope {
	return &threadScope{set: s, tasks: map[int]*threadEvents{}}
}

func (c *threadScope) openRings() error { return nil }

func (c *threadScope) bits() uint64 { return perfabi.AttrDisabled | perfabi.AttrRemoveOnExec }

func (c *threadScope) arm() error {
	s := c.set
	tids, err := s.target.TIDs()
	if err != nil {
		return fmt.Errorf("list threads of process %d: %w", s.target.PID(), err)
	}
	if err := c.afford(len(tids)); err != nil {
		return err
	}
	c.chooseSize(len(tids))
	tried := map[int]bool{} // one that has ended stays listed while a tracer has not seen that
	for found := true; found; {
		found = false
		for _, tid := range tids {
			if !tried[tid] {
				tried[tid], found = true, true
				if err := c.openTask(tid); err != nil {
					return err
				}
			}
		}
		if tids, err = s.target.TIDs(); err != nil {
			return fmt.Errorf("list threads of process %d: %w", s.target.PID(), err)
		}
	}
	s.info.Threads = len(tids)
	for _, t := range c.tasks {
		if err := c.enable(t); err != nil {
			return err
		}
	}
	return nil
}

// afford refuses more watchpoints than the cap.
func (c *threadScope) afford(threads int) error {
	limit := c.set.cfg.MaxSamplers
	if limit == 0 {
		limit = defaultMaxSamplers
	}
	slots := len(c.set.cfg.Slots)
	if need := slots * threads; need > limit {
		return &LimitError{
			What: fmt.Sprintf("open watchpoints: %d slots x %d threads = %d watchpoints, the cap is %d", slots, threads, need, limit),
			Hit:  "raise --max-samplers, or use --scope cpu or inherit", Err: errTooMany,
		}
	}
	return nil
}

func (c *threadScope) chooseSize(threads int) {
	if c.size = c.set.cfg.RingSize; c.size == 0 {
		for c.size = threadRingMax; c.size > threadRingMin && c.size*max(threads, 1) > threadRingTotal; c.size /= 2 {
		}
	}
	c.set.attrs.watermark = uint32(c.size / watermarkShare)
	c.set.info.RingSize = c.size
}

// openTask opens a thread's ring and watchpoints, disabled. A thread that ends meanwhile is nothing to open.
func (c *threadScope) openTask(tid int) error {
	s := c.set
	t := &threadEvents{tid: tid}
	owner, err := s.openSideband(tid, -1, sidebandAll, nil)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	if t.ring, err = c.mapRing(tid, owner); err != nil {
		owner.close()
		if hasEnded(err) {
			return nil
		}
		return err
	}
	s.rings = append(s.rings, t.ring)
	c.tasks[tid] = t
	for slot := range s.cfg.Slots {
		if err := c.openSlot(t, slot); err != nil {
			c.drop(t)
			if hasEnded(err) {
				return nil
			}
			return err
		}
	}
	return nil
}

// hasEnded reports whether an error says that a thread has ended of which an event is open already: ESRCH, or ENODEV, which Linux
// 6.18 gives for an event that is to write to the ring of one whose thread is ending.
func hasEnded(err error) bool { return errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENODEV) }

// mapRing maps a thread's ring, smaller while the kernel refuses the memory.
func (c *threadScope) mapRing(tid int, owner *event) (*eventRing, error) {
	number := c.numbers.take()
	for size := c.size; ; size /= 2 {
		r, err := mapRing(number, owner, size)
		if err == nil {
			if err := c.set.polls.add(r); err != nil {
				unix.Munmap(r.mem)
				return nil, err
			}
			return r, nil
		}
		if !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.ENOMEM) {
			return nil, fmt.Errorf("map the ring of thread %d: %w", tid, err)
		}
		if size/2 < unix.Getpagesize() {
			return nil, lockedMemoryError(len(c.tasks)+1, err)
		}
	}
}

func (c *threadScope) openSlot(t *threadEvents, slot int) error {
	e, err := c.set.openWatch(slot, t.tid, -1, c.bits(), t.ring.owner)
	if err == nil {
		t.slots = append(t.slots, e)
	}
	return err
}

func (c *threadScope) enable(t *threadEvents) error {
	for slot, e := range t.slots {
		if c.set.cfg.Slots[slot].Addr == 0 || c.set.paused[slot] {
			continue
		}
		if err := e.ioctl(unix.PERF_EVENT_IOC_ENABLE, 0); err != nil {
			return fmt.Errorf("enable watchpoint: tid=%d slot %d: %w", t.tid, slot, err)
		}
	}
	return nil
}

func (c *threadScope) add(slot int) error {
	for _, t := range c.tasks {
		if err := c.openSlot(t, slot); err != nil {
			return err
		}
		if c.set.cfg.Slots[slot].Addr != 0 {
			if err := t.slots[slot].ioctl(unix.PERF_EVENT_IOC_ENABLE, 0); err != nil {
				return fmt.Errorf("enable watchpoint: tid=%d slot %d: %w", t.tid, slot, err)
			}
		}
	}
	return nil
}

func (c *threadScope) observe(h perfabi.Header, _ uint64, rec []byte) bool {
	const pidOff, tidOff, timeOff = perfabi.HeaderSize, perfabi.HeaderSize + 8, perfabi.HeaderSize + 16
	if len(rec) < timeOff+8 {
		return true
	}
	pid, tid := int(binary.LittleEndian.Uint32(rec[pidOff:])), int(binary.LittleEndian.Uint32(rec[tidOff:]))
	switch {
	case h.Type == perfabi.RecordFork && pid == c.set.target.PID():
		c.pending = append(c.pending, newThread{tid: tid, born: binary.LittleEndian.Uint64(rec[timeOff:])})
	case h.Type == perfabi.RecordExit && c.tasks[tid] != nil:
		c.tasks[tid].ended = true
	}
	return true
}

// settle attaches the threads whose birth the last drain brought and drops those that have ended.
func (c *threadScope) settle() error {
	var errs []error
	for tid, t := range c.tasks {
		if t.ended {
			errs = append(errs, c.retire(t))
			delete(c.tasks, tid)
		}
	}
	pending := c.pending
	c.pending = nil
	for _, n := range pending {
		if c.tasks[n.tid] != nil {
			continue // found by the scan
		}
		errs = append(errs, c.attach(n))
	}
	return errors.Join(errs...)
}

// attach opens a new thread and notes how long it was unwatched.
func (c *threadScope) attach(n newThread) error {
	err := c.openTask(n.tid)
	t := c.tasks[n.tid]
	if err == nil && t != nil {
		err = c.enable(t)
	}
	gap := Gap{TID: n.tid, From: n.born, To: Now(), Detail: "the thread was not watched until its birth was seen"}
	if t == nil {
		gap.Detail = "the thread had ended before its birth was seen"
	}
	if err != nil {
		gap.To, gap.Detail = 0, err.Error()
	}
	c.set.addHole(gap)
	return nil // a thread that cannot be watched is a gap and no reason to stop
}

// retire takes the last records of a thread that has ended, keeps its counts and closes its events.
func (c *threadScope) retire(t *threadEvents) error {
	for slot, e := range t.slots {
		hits, lost, err := e.count(c.set.attrs.lost)
		if err != nil {
			return err
		}
		c.retired[slot].hits += hits
		c.retired[slot].lost += lost
	}
	c.drop(t)
	return nil
}

// drop closes a thread's events and ring.
func (c *threadScope) drop(t *threadEvents) {
	c.set.forget(append(t.slots, t.ring.owner)...)
	for _, e := range t.slots {
		e.close()
	}
	rings := c.set.rings[:0]
	for _, r := range c.set.rings {
		if r != t.ring {
			rings = append(rings, r)
		}
	}
	c.set.rings = rings
	c.numbers.giveBack(t.ring.number)
	t.ring.close()
	delete(c.tasks, t.tid)
}

func (c *threadScope) disarm() error {
	var errs []error
	for _, t := range c.tasks {
		for _, e := range t.slots {
			errs = append(errs, e.ioctl(unix.PERF_EVENT_IOC_DISABLE, 0))
		}
	}
	return errors.Join(errs...)
}

func (c *threadScope) count(slot int) (hits, lost uint64, err error) {
	hits, lost = c.retired[slot].hits, c.retired[slot].lost
	for _, t := range c.tasks {
		h, l, err := t.slots[slot].count(c.set.attrs.lost)
		if err != nil {
			return 0, 0, err
		}
		hits, lost = hits+h, lost+l
	}
	return hits, lost, nil
}

func (c *threadScope) move(slot int, addr uint64) error {
	return modifyAll(c.set, slot, addr)
}

func (c *threadScope) toggle(slot int, request uint) error { return toggleAll(c.set, slot, request) }

func (c *threadScope) events(slot int) []*event {
	var events []*event
	for _, t := range c.tasks {
		events = append(events, t.slots[slot])
	}
	return events
}

func (c *threadScope) gaps() []Gap { return nil }

func (c *threadScope) close() {
	for _, t := range c.tasks {
		for _, e := range t.slots {
			e.close()
		}
	}
}
