//go:build amd64

package watch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"xw/pkg/perfabi"
)

// inheritScope opens each slot on every thread and CPU as an event that the threads created later inherit.
//
// Inheritance is per event: a thread born while its creator's events are being opened gets some of them. The kernel
// does not say which, but it writes a FORK record to every sideband event of the creator, after the new thread has
// inherited. So each thread gets a sideband event first, then its watchpoints, then a second sideband event: a birth
// that the second one reports, settleTime after it was opened, inherited everything; one that only the first one reports
// may have a part, and then the creator's events are closed and everything is done again; one that neither reports has
// nothing and is opened itself.
//
// Events are opened enabled, with their ring, so that nothing has to be enabled later: PERF_EVENT_IOC_ENABLE races
// with clone (a child copies the state of its creator's event before it is on the list that the ioctl walks).
type inheritScope struct {
	set     *Set
	tasks   map[int]*taskEvents
	owners  map[uint64]*taskEvents // sideband event id to the task it was opened on
	births  map[int]*birth
	retired [MaxSlots]retiredCount // per slot: counts of events closed meanwhile
	lastNew uint64                 // time of the newest fork record of the target's
	holes   []Gap
	reopens int
	moved   []moved
}

// moved is a move that threads born while it was made may have escaped.
type moved struct {
	slot int
	from uint64 // when the last pass began
}

// taskEvents are the events of one thread that was opened by itself.
type taskEvents struct {
	tid        int
	begin, end []*event
	slots      [][]*event
	ended      uint64 // time when the last of end was open
}

// birth is what FORK records told of a thread.
type birth struct {
	time    uint64
	parent  *taskEvents // whose sideband event reported it
	whole   bool        // inherited every event
	partial bool        // inherited perhaps a part
	process bool        // another process: a copy, or a vfork child
	exit    uint64
}

type retiredCount struct{ hits, lost uint64 }

// settleTime is how long after its opening an event is taken to have been inherited by a new thread whose FORK record it
// reports, and how long a thread without a FORK record is waited for. The kernel writes the record some 30 us after
// the inheritance, longer when the creator loses its CPU in between.
const settleTime = 5 * time.Millisecond

// maxReopens bounds how often events are closed and opened again for births in between; after that the thread is a gap.
const maxReopens = 4

func newInheritScope(s *Set) *inheritScope {
	return &inheritScope{set: s, tasks: map[int]*taskEvents{}, owners: map[uint64]*taskEvents{}, births: map[int]*birth{}}
}

func (c *inheritScope) bits() uint64 {
	bits := uint64(perfabi.AttrInherit | perfabi.AttrRemoveOnExec)
	if c.set.progs == nil {
		bits |= perfabi.AttrInheritThread // without BPF a forked copy's hits could not be told from a vfork child's
	}
	return bits
}

func (c *inheritScope) openRings() error { return c.set.openCPURings() }

func (c *inheritScope) arm() error {
	s := c.set
	tids, err := s.target.TIDs()
	if err != nil {
		return fmt.Errorf("list threads of process %d: %w", s.target.PID(), err)
	}
	if err := c.afford(len(tids)); err != nil {
		return err
	}
	// These were there before any event: they can have inherited nothing.
	for _, tid := range tids {
		if err := c.openTask(tid); err != nil {
			return err
		}
	}
	for {
		found, err := c.pass()
		if err != nil {
			return err
		}
		if !found {
			break
		}
	}
	live, err := s.target.TIDs()
	if err != nil {
		return fmt.Errorf("list threads of process %d: %w", s.target.PID(), err)
	}
	s.info.Threads = len(live)
	c.noteHoles(live)
	c.closeEnds()
	return nil
}

// pass looks for threads that no event covers and opens them; found says that there was one.
func (c *inheritScope) pass() (found bool, err error) {
	s := c.set
	tids, err := s.target.TIDs()
	if err != nil {
		return false, fmt.Errorf("list threads of process %d: %w", s.target.PID(), err)
	}
	time.Sleep(settleTime) // a listed thread's FORK record may still be on its way
	if err := s.drainEarly(); err != nil {
		return false, err
	}
	for _, tid := range tids {
		b := c.births[tid]
		switch {
		case c.tasks[tid] != nil || b != nil && b.whole:
		case b != nil && b.partial && c.reopens < maxReopens:
			c.reopens++
			found = true
			if err := c.reopen(b.parent); err != nil {
				return false, err
			}
		case b != nil && b.partial: // noteHoles tells
		default:
			found = true
			if err := c.openTask(tid); err != nil {
				return false, err
			}
		}
	}
	return found, nil
}

// afford compares what a scan would open with the limits before it opens anything.
func (c *inheritScope) afford(threads int) error {
	s := c.set
	slots, cpus := len(s.cfg.Slots), len(s.cpus)
	if samplers := slots * threads; s.cfg.MaxSamplers > 0 && samplers > s.cfg.MaxSamplers {
		return &LimitError{
			What: fmt.Sprintf("open watchpoints: %d slots x %d threads = %d watchpoints, more than --max-samplers %d", slots, threads, samplers, s.cfg.MaxSamplers),
			Hit:  "raise --max-samplers, or use --scope cpu, whose number of watchpoints does not depend on the threads", Err: errTooMany,
		}
	}
	const spare = 64 // descriptors for everything else
	need := threads*cpus*(slots+2) + spare
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		return fmt.Errorf("read RLIMIT_NOFILE: %w", err)
	}
	if uint64(need) > lim.Cur && lim.Max > lim.Cur {
		raised := unix.Rlimit{Cur: min(lim.Max, uint64(need)), Max: lim.Max}
		if unix.Setrlimit(unix.RLIMIT_NOFILE, &raised) == nil {
			lim = raised
		}
	}
	if uint64(need) > lim.Cur {
		return &LimitError{
			What: fmt.Sprintf("open watchpoints: %d threads x %d CPUs x (%d slots + 2) + %d others = %d descriptors, and RLIMIT_NOFILE is %d",
				threads, cpus, slots, spare, need, lim.Cur),
			Hit: raiseFiles, Err: errTooMany,
		}
	}
	return nil
}

// openTask opens all events of one thread. A thread that ends meanwhile is nothing to open.
func (c *inheritScope) openTask(tid int) error {
	t := &taskEvents{tid: tid, slots: make([][]*event, len(c.set.cfg.Slots))}
	err := c.openTaskEvents(t)
	if errors.Is(err, unix.ESRCH) {
		return c.retire(t)
	}
	if err != nil {
		c.closeTask(t)
		return err
	}
	c.tasks[tid] = t
	return nil
}

func (c *inheritScope) openTaskEvents(t *taskEvents) error {
	s := c.set
	sideband := func(list *[]*event, bits uint64) error {
		for _, cpu := range s.cpus {
			e, err := s.openSideband(t.tid, cpu, bits|perfabi.AttrInherit, s.ring(cpu))
			if err != nil {
				return err
			}
			*list = append(*list, e)
			c.owners[e.id] = t
		}
		return nil
	}
	if err := sideband(&t.begin, sidebandAll); err != nil {
		return err
	}
	for slot := range s.cfg.Slots {
		if err := c.openSlot(t, slot); err != nil {
			return err
		}
	}
	err := sideband(&t.end, sidebandEnd)
	t.ended = Now()
	return err
}

func (c *inheritScope) openSlot(t *taskEvents, slot int) error {
	bits := c.bits()
	if c.set.cfg.Slots[slot].Addr == 0 {
		bits |= perfabi.AttrDisabled
	}
	for _, cpu := range c.set.cpus {
		e, err := c.set.openWatch(slot, t.tid, cpu, bits, c.set.ring(cpu))
		if err != nil {
			return err
		}
		t.slots[slot] = append(t.slots[slot], e)
	}
	return nil
}

func (c *inheritScope) add(slot int) error {
	for _, t := range c.tasks {
		t.slots = append(t.slots, nil)
		if err := c.openSlot(t, slot); err != nil {
			return err
		}
	}
	return nil
}

// observe learns of births and deaths. Records of the second sideband events are not passed on: the first ones wrote
// the same.
func (c *inheritScope) observe(h perfabi.Header, id uint64, rec []byte) bool {
	t := c.owners[id]
	if t == nil {
		return true
	}
	atEnd := slices.ContainsFunc(t.end, func(e *event) bool { return e.id == id })
	// struct of PERF_RECORD_FORK and PERF_RECORD_EXIT: pid, ppid, tid, ptid, time
	const pidOff, tidOff, timeOff = perfabi.HeaderSize, perfabi.HeaderSize + 8, perfabi.HeaderSize + 16
	if len(rec) < timeOff+8 {
		return !atEnd
	}
	pid, tid := int(binary.LittleEndian.Uint32(rec[pidOff:])), int(binary.LittleEndian.Uint32(rec[tidOff:]))
	when := binary.LittleEndian.Uint64(rec[timeOff:])
	switch h.Type {
	case perfabi.RecordExit:
		if b := c.births[tid]; b != nil {
			b.exit = when
		}
	case perfabi.RecordFork:
		b := c.births[tid]
		if b == nil || b.exit != 0 { // a thread id used again is another thread
			b = &birth{time: when}
			c.births[tid] = b
		}
		b.parent, b.process = t, pid != c.set.target.PID()
		if atEnd && when > t.ended+uint64(settleTime) {
			b.whole = true
		} else {
			b.partial = true
		}
		c.lastNew = max(c.lastNew, when)
	}
	return !atEnd
}

// reopen closes the events of a thread, with all that were inherited from them, and opens it anew; the threads that
// had inherited are found by the next pass.
func (c *inheritScope) reopen(t *taskEvents) error {
	if c.tasks[t.tid] != t {
		return nil // already done for another birth
	}
	if err := c.retire(t); err != nil {
		return err
	}
	delete(c.tasks, t.tid)
	for tid, b := range c.births {
		if b.parent == t {
			delete(c.births, tid)
		}
	}
	return c.openTask(t.tid)
}

// retire closes a thread's events and keeps their counts, since their hits have been or will be delivered.
func (c *inheritScope) retire(t *taskEvents) error {
	for slot, events := range t.slots {
		for _, e := range events {
			if err := e.ioctl(unix.PERF_EVENT_IOC_DISABLE, 0); err != nil {
				return fmt.Errorf("disable watchpoint: slot %d: %w", slot, err)
			}
		}
		hits, lost, err := sumCounts(events, c.set.attrs.lost)
		if err != nil {
			return err
		}
		c.retired[slot].hits += hits
		c.retired[slot].lost += lost
	}
	if err := c.set.drainEarly(); err != nil {
		return err
	}
	c.closeTask(t)
	return nil
}

func (c *inheritScope) closeTask(t *taskEvents) {
	for _, e := range slices.Concat(append([][]*event{t.begin, t.end}, t.slots...)...) {
		e.close()
	}
	t.begin, t.end, t.slots = nil, nil, make([][]*event, len(t.slots))
}

// noteHoles makes a gap of every thread that may have inherited only a part and lives on.
func (c *inheritScope) noteHoles(live []int) {
	for _, tid := range live {
		b := c.births[tid]
		if c.tasks[tid] == nil && b != nil && b.partial && !b.whole {
			c.holes = append(c.holes, Gap{TID: tid, From: b.time, Detail: "born while the watchpoints of its creator were being opened: it may have inherited only some of them"})
		}
	}
}

// closeEnds gives up the second sideband events: threads born from now on inherit everything.
func (c *inheritScope) closeEnds() {
	for _, t := range c.tasks {
		for _, e := range t.end {
			e.close()
		}
	}
	c.births = map[int]*birth{}
}

// each calls f with the watchpoints of every slot.
func (c *inheritScope) each(f func(slot int, e *event) error) error {
	var errs []error
	for _, t := range c.tasks {
		for slot, events := range t.slots {
			for _, e := range events {
				errs = append(errs, f(slot, e))
			}
		}
	}
	return errors.Join(errs...)
}

// untilQuiet repeats an ioctl pass while threads are born during it: a child copies the state of its creator's event
// before it is on the list that the ioctl walks.
func (c *inheritScope) untilQuiet(pass func() error) error {
	const maxPasses = 50
	for range maxPasses {
		start := Now()
		if err := pass(); err != nil {
			return err
		}
		time.Sleep(settleTime)
		if err := c.set.drainEarly(); err != nil {
			return err
		}
		if c.lastNew < start {
			return nil
		}
	}
	return nil
}

func (c *inheritScope) disarm() error {
	return c.untilQuiet(func() error {
		return c.each(func(_ int, e *event) error { return e.ioctl(unix.PERF_EVENT_IOC_DISABLE, 0) })
	})
}

func (c *inheritScope) count(slot int) (hits, lost uint64, err error) {
	hits, lost = c.retired[slot].hits, c.retired[slot].lost
	for _, t := range c.tasks {
		h, l, err := sumCounts(t.slots[slot], c.set.attrs.lost)
		if err != nil {
			return 0, 0, err
		}
		hits, lost = hits+h, lost+l
	}
	return hits, lost, nil
}

func (c *inheritScope) move(slot int, addr uint64) error {
	c.toggled(slot)
	return modifyAll(c.set, slot, addr)
}

func (c *inheritScope) events(slot int) []*event {
	var events []*event
	for _, t := range c.tasks {
		events = append(events, t.slots[slot]...)
	}
	return events
}

func (c *inheritScope) toggled(slot int) { c.moved = append(c.moved, moved{slot: slot, from: Now()}) }

// settle repeats moves for threads that were born while they were made, until none was any more.
func (c *inheritScope) settle() error {
	var errs []error
	rest := c.moved[:0]
	for _, m := range c.moved {
		now := Now()
		if c.lastNew >= m.from {
			if err := modifyAll(c.set, m.slot, c.set.cfg.Slots[m.slot].Addr); err != nil {
				errs = append(errs, err)
			}
			c.set.addHole(Gap{Kind: "blind", Slot: m.slot, From: m.from, To: Now(), Detail: "a thread was born while the watchpoint was being moved, paused or resumed: it may have had the old one until that was repeated"})
			m.from = now
		} else if now-m.from > uint64(settleTime) {
			continue
		}
		rest = append(rest, m)
	}
	c.moved = rest
	return errors.Join(errs...)
}

// gaps lists the threads that may not have been covered.
func (c *inheritScope) gaps() []Gap { return c.holes }

func (c *inheritScope) close() {
	for _, t := range c.tasks {
		t.end = nil // closed when the scan was done
		c.closeTask(t)
	}
}
