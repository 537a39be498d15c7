//go:build amd64

package watch

import (
	"errors"
	"slices"
)

// toggles is the part of scope inherit that repeats an ioctl for the threads that escaped it.
//
// PERF_EVENT_IOC_ENABLE, DISABLE and MODIFY_ATTRIBUTES walk the list of the events inherited from one. A thread that is
// being created has its creator's old state and is not in the list yet (inherit_event, kernel/events/core.c). When its
// FORK record comes it is, and the ioctl is repeated. That fork is the first that its creator makes after the ioctl,
// since a thread makes one at a time; what it makes later has the new state. Only a thread that has escaped can still
// hand on the old one, until it was reached.
type toggles struct {
	pending []*toggle
}

// toggle is an ioctl on the events of a slot that is not yet known to have reached every thread.
type toggle struct {
	slot    int
	from    uint64         // when it began
	end     uint64         // when it had walked all lists; later than any time while it has not
	reached map[int]uint64 // of threads that escaped: when they were reached; later than any time while they are not
	forked  map[int]bool   // creators that have made a thread since
	again   bool
	expires uint64
}

// never is later than any time.
const never = ^uint64(0)

// allSlots stands for a slot in a toggle of all of them.
const allSlots = -1

// begin says that an ioctl on a slot's events begins. What an earlier one on them has missed it reaches.
func (g *toggles) begin(slot int) *toggle {
	p := &toggle{slot: slot, from: Now(), end: never, reached: map[int]uint64{}, forked: map[int]bool{}, expires: never}
	g.pending = slices.DeleteFunc(g.pending, func(old *toggle) bool {
		if old.slot == slot && old.again {
			p.from = old.from
		}
		return old.slot == slot || slot == allSlots
	})
	g.pending = append(g.pending, p)
	return p
}

// finish says that it has ended.
func (p *toggle) finish() {
	p.end = Now()
	p.expires = p.end + uint64(patience)
}

// born looks whether a thread may have escaped.
func (g *toggles) born(b birth) {
	for _, p := range g.pending {
		reached, escaped := p.reached[b.creator]
		if !escaped {
			reached = p.end
		}
		switch {
		case b.time < p.from, b.time > reached && p.forked[b.creator]:
			continue
		case b.time > reached:
			p.forked[b.creator] = true
		}
		p.reached[b.tid] = never
		p.again = true
	}
}

// blindfold says that FORK records were lost: any thread may have escaped.
func (g *toggles) blindfold() {
	for _, p := range g.pending {
		p.again = true
	}
}

// repeat calls redo for the ioctls that a thread may have escaped, and forgets those that none can any more.
func (g *toggles) repeat(redo func(p *toggle) error) error {
	var errs []error
	for _, p := range g.pending {
		if !p.again {
			continue
		}
		p.again = false
		errs = append(errs, redo(p))
		end := Now()
		p.expires = end + uint64(patience)
		for tid, reached := range p.reached {
			if reached == never {
				p.reached[tid] = end
			}
		}
	}
	now := Now()
	g.pending = slices.DeleteFunc(g.pending, func(p *toggle) bool { return now > p.expires })
	return errors.Join(errs...)
}
