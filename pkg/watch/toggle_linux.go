//go:build amd64

package watch

import (
	"errors"
	"slices"
	"time"
)

// toggles is the part of scope inherit that repeats an ioctl for the threads that escaped it.
//
// PERF_EVENT_IOC_ENABLE, DISABLE and MODIFY_ATTRIBUTES walk the list of the events inherited from one. A thread that is
// being created has its creator's old state and is not in the list yet (inherit_event, kernel/events/core.c). When its
// FORK record comes it is, and the ioctl is repeated. That fork is the first that its creator makes after the ioctl,
// since a thread makes one at a time; what it makes later has the new state. Only a thread that has escaped can still
// hand on the old one, until it was reached.
//
// That holds for a creator that keeps its events. Where a thread and its creator, or two of one creator, follow each other on a
// CPU, the kernel swaps their events instead of loading them (perf_event_context_sched_out), so that a creator may go on with
// those of a thread that has escaped, and be in a clone(2) with them when that is reached. It is kept from that by an event of
// its own that is not inherited (pin), and its first fork after the ioctl was repeated counts as one after the ioctl.
//
// How long a creator may be held up in the midst of a clone(2) depends on the load, so that an ioctl is only forgotten when no
// thread can be in one any more that it was in then.
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
	loose   map[int]bool   // creators of threads that may have escaped which had no pin then
	again   bool
	rest    time.Duration    // for how long after it the threads are not looked at
	rests   uint64           // until when
	doubted map[int]*creator // threads that may still be in a clone(2) from before end; nil: all
}

// never is later than any time.
const never = ^uint64(0)

// allSlots stands for a slot in a toggle of all of them.
const allSlots = -1

// begin says that an ioctl on a slot's events begins. What an earlier one on them has missed it reaches.
func (g *toggles) begin(slot int) *toggle {
	p := &toggle{slot: slot, from: Now(), end: never, reached: map[int]uint64{}, forked: map[int]bool{}, loose: map[int]bool{}, rests: never}
	g.pending = slices.DeleteFunc(g.pending, func(old *toggle) bool {
		if old.slot == slot && old.again {
			p.from = old.from
		}
		return old.slot == slot || slot == allSlots
	})
	g.pending = append(g.pending, p)
	return p
}

// finish says that it has ended, and that for some time only FORK records tell of threads that have escaped.
func (p *toggle) finish(rest time.Duration) {
	p.end, p.rest = Now(), rest
	p.rests = p.end + uint64(rest)
}

// born looks whether a thread may have escaped. pinned tells that its creator has a pin.
func (g *toggles) born(b birth, pinned bool) {
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
		if !pinned {
			p.loose[b.creator] = true
		}
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
		p.rests, p.doubted = end+uint64(p.rest), nil
		for tid, reached := range p.reached {
			if reached == never {
				p.reached[tid] = end
			}
		}
		for tid := range p.loose {
			p.reached[tid] = end
			delete(p.forked, tid)
		}
		clear(p.loose)
	}
	// The FORK record of a thread that was no longer doubted had come by then.
	g.pending = slices.DeleteFunc(g.pending, func(p *toggle) bool { return p.doubted != nil && len(p.doubted) == 0 })
	return errors.Join(errs...)
}

// looksPerDrain bounds how many threads are looked at between two drains: each takes some 20 us, and hits wait meanwhile.
const looksPerDrain = 100

// review finds out which threads may still be in a clone(2) from before an ioctl. list lists the threads, clock tells the state
// of one and for how long it has run.
func (g *toggles) review(list func() ([]int, error), clock func(tid int) (state byte, ran time.Duration, err error)) error {
	for _, p := range g.pending {
		if p.again || Now() < p.rests {
			continue
		}
		if p.doubted == nil {
			tids, err := list()
			if err != nil {
				return err
			}
			p.doubted = map[int]*creator{}
			for _, tid := range tids {
				p.doubted[tid] = &creator{}
			}
		}
		left := looksPerDrain
		for tid, k := range p.doubted {
			if p.forked[tid] || k.outOfClone(clock(tid)) {
				delete(p.doubted, tid)
			}
			if left--; left == 0 {
				break
			}
		}
	}
	return nil
}
