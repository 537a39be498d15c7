//go:build amd64

package watch

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"xw/pkg/perfabi"
	"xw/pkg/proc"
)

// decide settles what the kernel and the privileges allow: hits made by the kernel, BPF, the scope.
func (s *Set) decide() error {
	if err := s.decideKernel(); err != nil {
		return err
	}
	s.attrs.regs, s.attrs.callchain = s.cfg.Regs, s.cfg.Callchain
	s.attrs.lost = s.tryAttr(func(a *unix.PerfEventAttr) { a.Read_format = perfabi.FormatLost }) == nil
	if err := s.decideValues(); err != nil {
		return err
	}
	s.attrs.program = s.progs != nil
	return s.decideScope()
}

// tryAttr opens the first slot's watchpoint on a thread of the target, disabled, with a changed attr, and closes it.
func (s *Set) tryAttr(change func(*unix.PerfEventAttr)) error {
	attr := s.attrs.breakpoint(s.cfg.Slots[0], perfabi.AttrDisabled)
	change(attr)
	tids, err := s.target.TIDs()
	if err != nil {
		return fmt.Errorf("list threads of process %d: %w", s.target.PID(), err)
	}
	err = unix.ESRCH
	for _, tid := range tids {
		var e *event
		if e, err = openEvent(attr, tid, -1, nil); err == nil {
			e.close()
			return nil
		}
		if !errors.Is(err, unix.ESRCH) {
			return s.openError(0, tid, -1, err)
		}
	}
	return s.openError(0, s.target.PID(), -1, err)
}

// decideKernel finds out whether hits made by the kernel may be seen. It is the first to open something on the
// target, and so the one to report that nothing at all may be opened.
func (s *Set) decideKernel() error {
	none := func(*unix.PerfEventAttr) {}
	if s.cfg.Kernel != "off" {
		s.attrs.kernel = true
		err := s.tryAttr(none)
		if err == nil {
			s.info.Kernel, s.info.KernelReason = "on", "permitted"
			if s.cfg.Kernel == "on" {
				s.info.KernelReason = "asked for"
			}
			return nil
		}
		if s.cfg.Kernel == "on" || !errors.Is(err, unix.EACCES) {
			return err
		}
	}
	s.attrs.kernel = false
	s.info.Kernel, s.info.KernelReason = "off", "asked for"
	if s.cfg.Kernel == "auto" {
		s.info.KernelReason = "perf_event_paranoid is " + paranoid() + " and xw-open has no CAP_PERFMON"
	}
	return s.tryAttr(none)
}

// decideValues loads the BPF programs, unless they are not wanted.
func (s *Set) decideValues() error {
	s.info.Values, s.info.ValuesReason = "off", "asked for"
	if s.cfg.Values == "off" {
		return nil
	}
	if s.cfg.Scope == "thread" {
		// The rings of BPF programs are per CPU and those of this scope per thread.
		s.info.ValuesReason = "scope thread has no BPF programs"
		if s.cfg.Values == "bpf" {
			return fmt.Errorf("read values with BPF: %s: use scope cpu or inherit", s.info.ValuesReason)
		}
		return nil
	}
	err := bpfError(s.loadPrograms())
	if err == nil {
		s.info.Values, s.info.ValuesReason = "bpf", "permitted"
		return nil
	}
	if s.cfg.Values == "bpf" {
		return fmt.Errorf("read values with BPF: %w", err)
	}
	s.info.ValuesReason = fmt.Sprintf("BPF is not available: %v", err)
	return nil
}

func (s *Set) loadPrograms() error {
	offsets, err := kernelOffsets()
	if err != nil {
		return err
	}
	if s.mm, err = s.target.HoldMM(); err != nil {
		return err
	}
	mem, ns, err := memoryOf(s.target.PidFD(), offsets)
	if err != nil {
		return err
	}
	c := programConfig{
		memory: mem, bits: s.target.Bits(), namespace: ns, offsets: offsets, regs: s.cfg.Regs,
		cpus: s.cpus, ringSize: s.ringSize(),
	}
	if s.cfg.Callchain {
		c.chain = maxChain()
	}
	c.readsHit = s.cfg.LaterReads || slices.ContainsFunc(s.cfg.Slots, Slot.reads)
	if c.readsHit {
		if c.directMap, err = findDirectMap(offsets); err != nil {
			s.info.Notes = append(s.info.Notes, fmt.Sprintf("values of rw watches are not read at the hit: %v", err))
		}
	}
	progs, err := newPrograms(c)
	if err != nil {
		return err
	}
	for _, slot := range s.cfg.Slots {
		if err := progs.load(slot); err != nil {
			progs.close()
			return err
		}
	}
	s.progs = progs
	return nil
}

// decideScope chooses how to cover the tasks of the target.
func (s *Set) decideScope() error {
	name, reason := s.cfg.Scope, "asked for"
	if name == "auto" {
		name, reason = chooseScope(scopeFacts{
			noBPF: s.whyNoBPF(), mayWatchCPU: s.mayWatchCPU, chains: s.cfg.Chains,
			others: func() (int, int, error) { return s.target.Others(s.ranges()) },
		})
	}
	s.info.Scope, s.info.ScopeReason = name, reason
	switch name {
	case "cpu":
		s.scope = &cpuScope{set: s}
		s.attrs.bare = s.progs != nil
		s.noteOthers()
	case "inherit":
		s.scope = newInheritScope(s)
	case "thread":
		s.scope = newThreadScope(s)
		s.attrs.cpu = true
	default:
		return fmt.Errorf("choose scope: %q is none of auto, cpu, inherit, thread", name)
	}
	return nil
}

func (s *Set) whyNoBPF() string {
	switch {
	case s.progs != nil:
		return ""
	case s.cfg.Values == "off":
		return "it is switched off by --values off"
	}
	return s.info.ValuesReason
}

// noteOthers says who else pays in scope cpu.
func (s *Set) noteOthers() {
	others, _, err := s.target.Others(s.ranges())
	if err == nil && others > 0 {
		s.info.Notes = append(s.info.Notes, fmt.Sprintf(
			"%s the watched addresses mapped: in scope cpu each of their accesses there traps too and costs them as much as the target's do; they are not counted", othersHave(others)))
	}
}

// mayWatchCPU tries the watchpoints on whole CPUs.
func (s *Set) mayWatchCPU() error {
	for _, cpu := range s.cpus {
		if err := s.tryCPU(cpu); err != nil {
			return err
		}
	}
	return nil
}

// tryCPU opens all slots on one CPU, since others may hold some there, and closes them again.
func (s *Set) tryCPU(cpu int) error {
	for i, slot := range s.cfg.Slots {
		e, err := openEvent(s.attrs.breakpoint(slot, perfabi.AttrDisabled), -1, cpu, nil)
		if err != nil {
			return s.openError(i, -1, cpu, err)
		}
		defer e.close()
	}
	return nil
}

// ranges are the bytes armed at attach, with the protection that an access needs.
func (s *Set) ranges() []proc.Range {
	var ranges []proc.Range
	for _, slot := range s.cfg.Slots {
		if slot.Addr == 0 {
			continue
		}
		r := proc.Range{Start: slot.Addr, End: slot.Addr + max(slot.Len, 1)}
		if slot.Access == "w" {
			r.Prot = proc.ProtWrite
		}
		ranges = append(ranges, r)
	}
	return ranges
}

// tracer names the process that traces the target, for the message about taken slots.
func (s *Set) tracer() string {
	if s.target == nil {
		return ""
	}
	pid, comm := s.target.TracerPID()
	if pid == 0 {
		return ""
	}
	return fmt.Sprintf("%s (pid %d)", comm, pid)
}
