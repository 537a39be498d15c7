//go:build amd64

package watch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"xw/pkg/perfabi"
	"xw/pkg/proc"
)

// inheritScope opens each slot on every thread and CPU as an event that the threads created later inherit. A thread
// created while its creator's events are being opened gets a part of them: coverage_linux.go looks after those.
//
// Events are opened enabled, with their ring, so that nothing has to be enabled later: PERF_EVENT_IOC_ENABLE races
// with clone(2), as toggle_linux.go tells.
type inheritScope struct {
	set   *Set
	tasks map[int]*taskEvents // threads that have events of their own
	pins  map[int]*event      // of creators of threads, by thread id; nil where it was refused
	coverage
	toggles
}

// taskEvents are the events of one thread that were opened on it, in the order of their opening: task records, then the
// slots, each for all CPUs. A thread that had inherited a part has only the rest here.
type taskEvents struct {
	tid      int
	sideband []*event
	slots    [][]*event
	opened   uint64 // when the last was open
}

func newInheritScope(s *Set) *inheritScope {
	return &inheritScope{
		set: s, tasks: map[int]*taskEvents{}, pins: map[int]*event{},
		coverage: coverage{whole: map[int]bool{}, creators: map[int]*creator{}},
	}
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
	tids, err := c.list()
	if err != nil {
		return err
	}
	if err := c.afford(len(tids)); err != nil {
		return err
	}
	// These were there before any event: they can have inherited nothing.
	for _, tid := range tids {
		if err := c.openTask(tid); err != nil {
			return err
		}
		if err := c.set.drainWhileArming(); err != nil {
			return err
		}
	}
	if err := c.coverRest(); err != nil {
		return err
	}
	live, err := c.set.target.TIDs()
	if err != nil {
		return fmt.Errorf("list threads of process %d: %w", c.set.target.PID(), err)
	}
	c.set.info.Threads = len(live)
	return nil
}

// list lists the tasks that share the target's memory, as far as this scope can cover them: its threads, and with BPF
// those of processes that vfork(2) or clone(2) with CLONE_VM made of it.
func (c *inheritScope) list() ([]int, error) {
	tids, err := c.set.target.TIDs()
	if err != nil {
		return nil, fmt.Errorf("list threads of process %d: %w", c.set.target.PID(), err)
	}
	if c.set.progs == nil {
		return tids, nil
	}
	sharers, err := c.set.target.Sharers()
	return append(tids, sharers...), err
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
	need := threads*cpus*(slots+1) + spare
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
			What: fmt.Sprintf("open watchpoints: %d threads x %d CPUs x (%d slots + 1) + %d others = %d descriptors, and RLIMIT_NOFILE is %d",
				threads, cpus, slots, spare, need, lim.Cur),
			Hit: raiseFiles, Err: errTooMany,
		}
	}
	return nil
}

// openTask opens all events of one thread that has none.
func (c *inheritScope) openTask(tid int) error {
	return c.open(tid, c.all())
}

// all is the number of slots for each CPU, for open.
func (c *inheritScope) all() []int {
	missing := make([]int, len(c.set.cpus))
	for i := range missing {
		missing[i] = len(c.set.cfg.Slots)
	}
	return missing
}

// open opens the events of one thread of which it has inherited none, or of the slots the last ones only: missing is
// their number for each CPU. A thread that ends meanwhile keeps what was opened, since its children may have that.
func (c *inheritScope) open(tid int, missing []int) error {
	t := &taskEvents{tid: tid, slots: make([][]*event, len(c.set.cfg.Slots))}
	err := c.openEvents(t, missing)
	t.opened = Now()
	if err != nil && !errors.Is(err, unix.ESRCH) {
		t.close()
		return err
	}
	if err == nil {
		c.watchCreator(t)
	}
	if len(t.sideband) > 0 || len(t.events()) > 0 {
		c.tasks[tid] = t
	}
	return nil
}

func (c *inheritScope) openEvents(t *taskEvents, missing []int) error {
	s := c.set
	slots := len(s.cfg.Slots)
	for i, cpu := range s.cpus {
		if missing[i] < slots {
			continue // task records come before the slots
		}
		e, err := s.openSideband(t.tid, cpu, sidebandAll|perfabi.AttrInherit, s.ring(cpu))
		if err != nil {
			return err
		}
		t.sideband = append(t.sideband, e)
	}
	for slot := range slots {
		for i, cpu := range s.cpus {
			if slot < slots-missing[i] {
				continue
			}
			if err := c.openSlot(t, slot, cpu); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *inheritScope) openSlot(t *taskEvents, slot, cpu int) error {
	bits := c.bits()
	if c.set.cfg.Slots[slot].Addr == 0 || c.set.paused[slot] {
		bits |= perfabi.AttrDisabled
	}
	e, err := c.set.openWatch(slot, t.tid, cpu, bits, c.set.ring(cpu))
	if err == nil {
		t.slots[slot] = append(t.slots[slot], e)
	}
	return err
}

func (t *taskEvents) events() (events []*event) {
	for _, list := range t.slots {
		events = append(events, list...)
	}
	return events
}

func (t *taskEvents) close() {
	for _, e := range append(t.events(), t.sideband...) {
		e.close()
	}
}

func (c *inheritScope) add(slot int) error {
	for _, t := range c.tasks {
		t.slots = append(t.slots, nil)
		for _, cpu := range c.set.cpus {
			if err := c.openSlot(t, slot, cpu); err != nil {
				return err
			}
		}
	}
	return nil
}

// observe learns of new threads.
func (c *inheritScope) observe(h perfabi.Header, _ uint64, rec []byte) bool {
	// struct of PERF_RECORD_FORK and EXIT: pid, ppid; tid, ptid; time
	const tidOff, ptidOff, timeOff = perfabi.HeaderSize + 8, perfabi.HeaderSize + 12, perfabi.HeaderSize + 16
	switch {
	case h.Type == perfabi.RecordLost:
		c.toggles.blindfold()
	case h.Type == perfabi.RecordExit && len(rec) >= timeOff+8:
		c.unpin(int(binary.LittleEndian.Uint32(rec[tidOff:])))
	case h.Type == perfabi.RecordFork && len(rec) >= timeOff+8:
		b := birth{
			tid: int(binary.LittleEndian.Uint32(rec[tidOff:])), creator: int(binary.LittleEndian.Uint32(rec[ptidOff:])),
			time: binary.LittleEndian.Uint64(rec[timeOff:]),
		}
		c.coverage.born(b)
		_, pinned := c.pins[b.creator]
		c.toggles.born(b, pinned)
	}
	return true
}

// birth is what a FORK record tells.
type birth struct {
	tid, creator int
	time         uint64
}

// disarm gives up after disarmTime: a thread that is still on then is one that escaped the last repetition.
func (c *inheritScope) disarm() error {
	disable := func(*toggle) error {
		var errs []error
		for _, t := range c.tasks {
			for _, e := range t.events() {
				errs = append(errs, e.ioctl(unix.PERF_EVENT_IOC_DISABLE, 0))
			}
		}
		return errors.Join(errs...)
	}
	p := c.begin(allSlots)
	err := disable(p)
	p.finish(0)
	for until := time.Now().Add(disarmTime); err == nil && len(c.pending) > 0 && time.Now().Before(until); {
		if err = c.review(c.threads, c.set.target.TaskClock); err != nil {
			break
		}
		time.Sleep(settleTime)
		if err = c.set.drainEarly(); err == nil {
			c.pinLoose()
			err = c.repeat(disable)
		}
	}
	return err
}

// settleTime is how long disarming waits from one look at the threads to the next, more than the cloneTime that shows that one
// gets on.
const settleTime = 2 * time.Millisecond

// toggleRest is how long the threads are not looked at after a toggle: one that is made again soon, as that of a pointer or a
// pause, spares that altogether.
const toggleRest = 100 * time.Millisecond

// disarmTime bounds disarming under an endless storm of threads.
const disarmTime = 250 * time.Millisecond

// move aims a slot elsewhere.
func (c *inheritScope) move(slot int, addr uint64) error {
	p := c.begin(slot)
	defer func() { p.finish(toggleRest) }()
	return modifyAll(c.set, slot, addr)
}

func (c *inheritScope) toggle(slot int, request uint) error {
	p := c.begin(slot)
	defer func() { p.finish(toggleRest) }()
	return toggleAll(c.set, slot, request)
}

func (c *inheritScope) count(slot int) (hits, lost uint64, err error) {
	return sumCounts(c.events(slot), c.set.attrs.lost)
}

func (c *inheritScope) events(slot int) []*event {
	var events []*event
	for _, t := range c.tasks {
		events = append(events, t.slots[slot]...)
	}
	return events
}

// pinLoose gives a pin to the creators that have none: an event that is not inherited, so that no thread's events are a copy of
// all of theirs, and are never swapped with them (context_equiv, kernel/events/core.c). See toggles.
func (c *inheritScope) pinLoose() {
	for _, p := range c.pending {
		for tid := range p.loose {
			if _, known := c.pins[tid]; known {
				continue
			}
			e, err := openEvent(c.set.attrs.pin(), tid, -1, nil)
			if err != nil && !errors.Is(err, unix.ESRCH) {
				c.set.addHole(Gap{TID: tid, Detail: fmt.Sprintf("threads that it creates may have missed that a watchpoint was moved, paused or resumed: open an event on it: %v", err)})
			}
			c.pins[tid] = e
		}
	}
}

// unpin releases the pin of a thread that has ended.
func (c *inheritScope) unpin(tid int) {
	if e := c.pins[tid]; e != nil {
		e.close()
	}
	delete(c.pins, tid)
}

// settle ends what waits for new threads: the coverage of the first ones after arming, and toggles that some may have
// escaped.
func (c *inheritScope) settle() error {
	c.pinLoose()
	return errors.Join(c.coverLate(), c.repeat(func(p *toggle) error {
		err := modifyAll(c.set, p.slot, c.set.cfg.Slots[p.slot].Addr)
		c.set.addHole(Gap{Kind: "blind", Slot: p.slot, From: p.from, To: Now(), Detail: "a thread was created while the watchpoint was being moved, paused or resumed: until that was repeated it may have had the old one"})
		return err
	}), c.review(c.threads, c.set.target.TaskClock))
}

// threads lists the target's threads; none when it has ended.
func (c *inheritScope) threads() ([]int, error) {
	tids, err := c.set.target.TIDs()
	if err != nil && errors.Is(c.set.target.Verify(), proc.ErrExited) {
		return nil, nil
	}
	return tids, err
}

func (c *inheritScope) gaps() []Gap { return nil }

func (c *inheritScope) close() {
	for _, t := range c.tasks {
		t.close()
	}
	for tid := range c.pins {
		c.unpin(tid)
	}
}
