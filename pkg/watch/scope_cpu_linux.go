//go:build amd64

package watch

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"xw/pkg/perfabi"
)

// cpuScope opens each slot once per CPU, on all tasks; the BPF program tells the target's hits from others', or where
// there is none the drain does. It needs no scan of threads and has no race with their creation.
type cpuScope struct {
	set       *Set
	sidebands []*event
	slots     [][]*event // slot, then CPU
}

func (c *cpuScope) openRings() error { return c.set.openCPURings() }

func (c *cpuScope) arm() error {
	s := c.set
	tasks, err := s.target.Tasks()
	if err != nil {
		return err
	}
	s.info.Threads = len(tasks)
	for _, cpu := range s.cpus {
		e, err := s.openSideband(-1, cpu, sidebandAll, s.ring(cpu))
		if err != nil {
			return err
		}
		c.sidebands = append(c.sidebands, e)
	}
	for slot := range s.cfg.Slots {
		if err := c.open(slot); err != nil {
			return err
		}
	}
	for slot := range c.slots {
		if err := c.enable(slot); err != nil {
			return err
		}
	}
	return nil
}

func (c *cpuScope) open(slot int) error {
	c.slots = append(c.slots, nil)
	for _, cpu := range c.set.cpus {
		e, err := c.set.openWatch(slot, -1, cpu, perfabi.AttrDisabled, c.set.ring(cpu))
		if err != nil {
			return err
		}
		c.slots[slot] = append(c.slots[slot], e)
	}
	return nil
}

func (c *cpuScope) enable(slot int) error {
	if c.set.cfg.Slots[slot].Addr == 0 {
		return nil
	}
	for _, e := range c.slots[slot] {
		if err := e.ioctl(unix.PERF_EVENT_IOC_ENABLE, 0); err != nil {
			return fmt.Errorf("enable watchpoint: slot %d cpu %d: %w", slot, e.cpu, err)
		}
	}
	return nil
}

func (c *cpuScope) add(slot int) error {
	if err := c.open(slot); err != nil {
		return err
	}
	return c.enable(slot)
}

func (c *cpuScope) observe(perfabi.Header, uint64, []byte) bool { return true }

func (c *cpuScope) disarm() error {
	var errs []error
	for _, e := range slices.Concat(c.slots...) {
		errs = append(errs, e.ioctl(unix.PERF_EVENT_IOC_DISABLE, 0))
	}
	return errors.Join(errs...)
}

func (c *cpuScope) count(slot int) (hits, lost uint64, err error) {
	return sumCounts(c.slots[slot], c.set.attrs.lost)
}

// sumCounts adds up the counts of several events.
func sumCounts(events []*event, withLost bool) (hits, lost uint64, err error) {
	for _, e := range events {
		h, l, err := e.count(withLost)
		if err != nil {
			return 0, 0, err
		}
		hits, lost = hits+h, lost+l
	}
	return hits, lost, nil
}

func (c *cpuScope) move(slot int, addr uint64) error {
	return modifyAll(c.set, slot, addr)
}

// modifyAll re-aims the watchpoints of one slot; address 0 disarms them. On an error all stay, or are again, where they
// were.
func modifyAll(s *Set, slot int, addr uint64) error {
	old := s.cfg.Slots[slot].Addr
	for i, e := range s.scope.events(slot) {
		err := modify(s, e, slot, addr)
		if err == nil {
			continue
		}
		// The kernel leaves the one that it refused to move disabled if it was opened so, whatever was done since.
		for _, done := range s.scope.events(slot)[:i+1] {
			err = errors.Join(err, modify(s, done, slot, old))
		}
		return fmt.Errorf("move watchpoint: slot %d to %#x: %w", slot, addr, err)
	}
	return nil
}

// modify re-aims one watchpoint.
func modify(s *Set, e *event, slot int, addr uint64) error {
	aimed := s.cfg.Slots[slot]
	aimed.Addr = addr
	attr := s.attrs.breakpoint(aimed, s.scope.bits())
	attr.Bits &^= perfabi.AttrDisabled
	if addr == 0 || s.paused[slot] {
		attr.Bits |= perfabi.AttrDisabled
	}
	return e.modify(attr)
}

// toggleAll switches the watchpoints of one slot off or on.
func toggleAll(s *Set, slot int, request uint) error {
	for _, e := range s.scope.events(slot) {
		if err := e.ioctl(request, 0); err != nil {
			return fmt.Errorf("pause or resume watchpoint: slot %d: %w", slot, err)
		}
	}
	return nil
}

func (c *cpuScope) toggle(slot int, request uint) error { return toggleAll(c.set, slot, request) }

func (c *cpuScope) events(slot int) []*event { return c.slots[slot] }

func (c *cpuScope) settle() error { return nil }

func (c *cpuScope) bits() uint64 { return perfabi.AttrDisabled }

// gaps reports CPUs that came online after the watchpoints were opened.
func (c *cpuScope) gaps() []Gap {
	now, err := onlineCPUs()
	if err != nil {
		return []Gap{{Detail: fmt.Sprintf("whether a CPU came online meanwhile is unknown: %v", err)}}
	}
	var gaps []Gap
	for _, cpu := range now {
		if !slices.Contains(c.set.cpus, cpu) {
			gaps = append(gaps, Gap{Detail: fmt.Sprintf("cpu %d came online after the watchpoints were opened and was not watched", cpu)})
		}
	}
	return gaps
}

func (c *cpuScope) close() {
	for _, e := range slices.Concat(c.slots...) {
		e.close()
	}
	for _, e := range c.sidebands {
		e.close()
	}
}
