//go:build amd64

package watch

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"golang.org/x/sys/unix"

	"xw/pkg/perfabi"
	"xw/pkg/proc"
)

// Set is the open watchpoints of one session. It has one owner: no method may be called while another one runs.
type Set struct {
	cfg    Config
	target *proc.Process
	info   Info
	attrs  attrs
	cpus   []int
	rings  []*eventRing
	polls  *pollSet
	progs  *programs // nil without BPF
	mm     interface{ Close() error }
	scope  scope

	live    uint64            // when the session began; 0 while it is being armed
	sources map[uint64]Source // of the events whose records may come, by id
	drained uint64            // when the rings were last drained while arming
	early   []record          // drained while disarming, for the next Drain
	limit   limit
	plain   [MaxSlots]plainCount // what came as the watchpoint's own samples
	fresh   []uint64             // ids in sources that NewSources has not told
	born    uint64               // threads of the target that began since
	execed  uint64               // when the target executed another program, where that has to be known; 0: not yet

	woke      uint64 // time of the newest hit of a slot that wakes
	closed    bool
	paused    [MaxSlots]bool
	holes     []Gap
	moreHoles int
}

// record is a copy of one record.
type record struct {
	cpu int
	rec []byte
}

// scope is one way to cover the tasks of the target.
type scope interface {
	// openRings opens what the records go to.
	openRings() error
	// arm opens and enables the watchpoints of every task.
	arm() error
	// add opens and enables those of one more slot, while the target stands still.
	add(slot int) error
	// observe looks at a record about tasks or lost records, before the session filters it, and says whether to pass
	// it on.
	observe(h perfabi.Header, id uint64, rec []byte) bool
	// disarm switches all watchpoints off; the events stay open to be counted.
	disarm() error
	// count is the kernel's count for a slot, events closed meanwhile included.
	count(slot int) (hits, lost uint64, err error)
	// bits are the attr flags that the watchpoints were opened with.
	bits() uint64
	// move aims a slot elsewhere, or nowhere for address 0.
	move(slot int, addr uint64) error
	// events are the open watchpoints of a slot.
	events(slot int) []*event
	// toggle switches the watchpoints of a slot off or on by an ioctl.
	toggle(slot int, request uint) error
	// settle looks after new threads; it is called after each drain.
	settle() error
	// gaps are the tasks that were not covered.
	gaps() []Gap
	close()
}

// Open opens a session's watchpoints on p, enables them and returns. The first error is returned and nothing is left
// open: *OpenError, *PermissionError and *LimitError carry hints.
func Open(p *proc.Process, cfg Config) (_ *Set, err error) {
	s := &Set{cfg: cfg, target: p, sources: map[uint64]Source{}}
	defer func() {
		if err != nil {
			s.Close()
			err = Explain(err)
		}
	}()
	if s.cpus, err = onlineCPUs(); err != nil {
		return nil, err
	}
	if s.polls, err = newPollSet(); err != nil {
		return nil, err
	}
	if err := selfTest(); err != nil {
		return nil, err
	}
	if err := s.decide(); err != nil {
		return nil, err
	}
	if err := s.scope.openRings(); err != nil {
		return nil, err
	}
	if err := s.scope.arm(); err != nil {
		return nil, err
	}
	return s, s.begin()
}

// begin ends the arming: what hits before it is not the session's, so that it begins for all slots and threads at one
// moment.
func (s *Set) begin() error {
	s.live = Now()
	if s.progs == nil {
		return s.noteSharers()
	}
	return s.progs.setGate(gateLive)
}

// openCPURings opens the ring of each CPU that the kernel writes to. With BPF the hits have rings of their own.
func (s *Set) openCPURings() (err error) {
	size := s.ringSize()
	if s.progs != nil {
		size = min(size, smallRing)
	}
	s.attrs.watermark = uint32(size / watermarkShare)
	s.rings, s.info.RingSize, err = openRings(s.cpus, size, func(cpu int) (*event, error) {
		// The owner is a dummy on this process: it needs no privilege and does not end with a thread of the target,
		// after which poll would report POLLHUP for ever.
		e, err := openEvent(s.attrs.sideband(0), unix.Getpid(), cpu, nil)
		if err != nil {
			return nil, fmt.Errorf("open the ring's event on cpu %d: %w", cpu, err)
		}
		return e, nil
	})
	for _, r := range s.rings {
		err = errors.Join(err, s.polls.add(r))
	}
	if err != nil || s.progs == nil {
		return err
	}
	s.info.RingSize = s.progs.config.ringSize
	s.sources[hitID] = Source{Role: "output", SampleType: hitSampleType(s.cfg.Callchain)}
	s.fresh = append(s.fresh, hitID)
	for _, r := range s.progs.hits {
		if err := s.polls.addHits(r); err != nil {
			return err
		}
	}
	return nil
}

// ringSize is the size of each CPU's ring to begin with.
func (s *Set) ringSize() int {
	if s.cfg.RingSize != 0 {
		return s.cfg.RingSize
	}
	return ringSize(len(s.cpus))
}

// source remembers what an event's records look like.
func (s *Set) source(e *event, src Source) {
	s.sources[e.id] = src
	s.fresh = append(s.fresh, e.id)
}

// forget drops what is known of events that are closed, after their last record was drained.
func (s *Set) forget(events ...*event) {
	for _, e := range events {
		delete(s.sources, e.id)
	}
}

// ring returns the event that owns the ring of a CPU.
func (s *Set) ring(cpu int) *event {
	for _, r := range s.rings {
		if r.number == cpu {
			return r.owner
		}
	}
	return nil
}

// openSideband opens a sideband event that writes to a ring, or that owns one if ring is nil.
func (s *Set) openSideband(tid, cpu int, bits uint64, ring *event) (*event, error) {
	attr := s.attrs.sideband(bits)
	e, err := openEvent(attr, tid, cpu, ring)
	if errors.Is(err, unix.EINVAL) && bits&perfabi.AttrBuildID != 0 { // before Linux 5.12
		attr.Bits &^= perfabi.AttrBuildID
		e, err = openEvent(attr, tid, cpu, ring)
	}
	op := fmt.Sprintf("open task records: tid=%d cpu=%d", tid, cpu)
	if errors.Is(err, fs.ErrPermission) {
		return nil, s.permissionError(op, tid, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	s.source(e, Source{Role: "sideband", SampleType: attr.Sample_type})
	return e, nil
}

// openWatch opens one slot's watchpoint on a thread and CPU, with its program if there are programs. A hit between
// the opening and the program's attachment comes as the watchpoint's own sample.
func (s *Set) openWatch(slot, tid, cpu int, bits uint64, ring *event) (*event, error) {
	attr := s.attrs.breakpoint(s.cfg.Slots[slot], bits)
	e, err := openEvent(attr, tid, cpu, ring)
	if err != nil {
		return nil, s.openError(slot, tid, cpu, err)
	}
	if s.progs != nil {
		if err := e.ioctl(unix.PERF_EVENT_IOC_SET_BPF, s.progs.slots[slot].FD()); err != nil {
			e.close()
			return nil, fmt.Errorf("attach the BPF program of slot %d: tid=%d cpu=%d: %w", slot, tid, cpu, err)
		}
	}
	s.source(e, Source{Role: "breakpoint", Slot: slot, SampleType: attr.Sample_type, RegsUser: attr.Sample_regs_user, RegsIntr: attr.Sample_regs_intr})
	return e, nil
}

// Add opens more slots. It is for a target that is stopped, so that no thread is born meanwhile.
func (s *Set) Add(slots []Slot) error {
	for _, slot := range slots {
		s.cfg.Slots = append(s.cfg.Slots, slot)
		if s.progs != nil {
			if err := s.progs.load(slot); err != nil {
				return err
			}
		}
		if err := s.scope.add(len(s.cfg.Slots) - 1); err != nil {
			return err
		}
	}
	return nil
}

// Born is the number of threads of the target that began while it was watched.
func (s *Set) Born() uint64 { return s.born }

// Info says what was decided.
func (s *Set) Info() Info { return s.info }

// Sources lists the events whose records a drain may bring, one entry for each kind of event.
func (s *Set) Sources() []Source {
	ids := make([]uint64, 0, len(s.sources))
	for id := range s.sources {
		ids = append(ids, id)
	}
	return s.describe(ids)
}

// NewSources lists those that were opened since the last call.
func (s *Set) NewSources() []Source {
	ids := s.fresh
	s.fresh = nil
	return s.describe(ids)
}

// describe groups events by what their records look like.
func (s *Set) describe(ids []uint64) []Source {
	type key struct {
		role               string
		slot               int
		sample, user, intr uint64
	}
	byKey := map[key]int{}
	var list []Source
	for _, id := range ids {
		src, ok := s.sources[id]
		if !ok {
			continue
		}
		k := key{src.Role, src.Slot, src.SampleType, src.RegsUser, src.RegsIntr}
		i, known := byKey[k]
		if !known {
			i = len(list)
			byKey[k] = i
			src.IDs = nil
			list = append(list, src)
		}
		list[i].IDs = append(list[i].IDs, id)
	}
	for _, src := range list {
		slices.Sort(src.IDs)
	}
	slices.SortFunc(list, func(a, b Source) int {
		if a.Role != b.Role {
			return len(a.Role) - len(b.Role)
		}
		return a.Slot - b.Slot
	})
	return list
}

// Move aims a slot at another address, or at none for 0, and returns the times before the first and after the last
// ioctl. On an error the old watch stays.
func (s *Set) Move(slot int, addr uint64) (start, end uint64, err error) {
	old := s.cfg.Slots[slot].Addr
	known := s.progs != nil && s.cfg.Slots[slot].reads()
	start = Now()
	if known {
		if err = s.progs.aim(slot, old, addr); err != nil {
			return start, Now(), err
		}
	}
	if err = s.scope.move(slot, addr); err == nil {
		s.cfg.Slots[slot].Addr = addr
	}
	end = Now()
	if known {
		// Where that fails both addresses stay, so that more code than need be is left out.
		_ = s.progs.aim(slot, s.cfg.Slots[slot].Addr, s.cfg.Slots[slot].Addr)
	}
	return start, end, err
}

// Pause switches one slot's watchpoints off for a while; Resume ends that. Threads born at that moment are looked after
// by the next drains.
func (s *Set) Pause(slot int) error {
	s.paused[slot] = true
	return s.scope.toggle(slot, unix.PERF_EVENT_IOC_DISABLE)
}

// Resume ends a pause. A slot that was moved meanwhile is armed where it was moved to.
func (s *Set) Resume(slot int) error {
	s.paused[slot] = false
	if s.cfg.Slots[slot].Addr == 0 {
		return nil
	}
	return s.scope.toggle(slot, unix.PERF_EVENT_IOC_ENABLE)
}

// Stop switches the watchpoints off. With BPF the programs' gate closes first, so that the session ends for all CPUs
// at one moment.
func (s *Set) Stop() error {
	var gateErr error
	if s.progs != nil {
		gateErr = s.progs.setGate(gateStopped)
	}
	return errors.Join(gateErr, s.scope.disarm())
}

// Close releases everything. It may be called at any time, and again.
func (s *Set) Close() {
	if s.closed {
		return
	}
	s.closed = true
	if s.scope != nil {
		s.scope.close()
	}
	for _, r := range s.rings {
		r.close()
	}
	if s.progs != nil {
		s.progs.close()
	}
	if s.mm != nil {
		s.mm.Close()
	}
	if s.polls != nil {
		s.polls.close()
	}
}

// Now is the present time in ns of CLOCK_MONOTONIC, the clock of every record.
func Now() uint64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("clock_gettime(CLOCK_MONOTONIC): " + err.Error()) // cannot fail: the clock exists and ts is valid
	}
	return uint64(ts.Nano())
}
