//go:build amd64

package watch

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"xw/pkg/perfabi"
)

// coverage is the part of scope inherit that finds the threads which inherited only some of their creator's events, or
// none.
//
// A new thread inherits, in one step, what its creator has at that moment (perf_event_init_task, kernel/events/core.c):
// since a thread's events are opened in a fixed order, it gets a first part of them. Some time later, but before it can
// be seen in /proc/PID/task, that is final. How many it got can be counted: the kernel reserves a hardware slot for each
// event, so that the number of further ones which may be opened on the thread tells (used).
//
// So every thread that is listed and has no events of its own is looked at, and what it lacks is opened. That goes on
// until a list has nothing new, read when no creator can still be in a clone(2) that it began before its events were
// complete (waitForCreators). A creator of which that could not be shown is kept in mind, and the next thread that it
// creates is looked at when its FORK record comes.
type coverage struct {
	whole    map[int]bool     // while arming: threads known to have inherited everything
	creators map[int]*creator // by thread id, those that may be in such a clone(2)
	firsts   []birth          // threads created by them, to be looked at
	others   []int            // hardware slots of a thread that others hold, by CPU; nil while not measured
	live     bool             // armed
}

// creator is a thread that may be in the midst of a clone(2) that it began before its events were complete.
type creator struct {
	since uint64        // when they were
	ran   time.Duration // for how long the thread had run then; unknown until it was asked for
	known bool
}

// outOfClone takes in the thread's state and how long it has run, and reports whether it can no longer be in the clone(2) that
// it may have been in: it was seen asleep (in clone it waits uninterruptibly at most), has run for longer than that takes, or
// has ended.
func (k *creator) outOfClone(state byte, ran time.Duration, err error) bool {
	if err != nil || state != 'R' && state != 'D' || k.known && ran >= k.ran+cloneTime {
		return true
	}
	if !k.known {
		k.ran, k.known = ran, true
	}
	return false
}

// cloneTime is more than a clone(2) of a thread takes of the CPU: some 50 us were seen.
const cloneTime = time.Millisecond

// patience bounds how long arming waits for creators that do not get on, as under a full load.
const patience = 100 * time.Millisecond

// watchCreator keeps in mind that a thread's events have just been completed.
func (c *inheritScope) watchCreator(t *taskEvents) { c.creators[t.tid] = &creator{since: t.opened} }

// born takes note of the first thread that such a creator makes after its events were complete: that may be the one.
// With it the clone(2) is over.
func (c *coverage) born(b birth) {
	k := c.creators[b.creator]
	if k == nil || b.time < k.since {
		return
	}
	delete(c.creators, b.creator)
	if c.live {
		c.firsts = append(c.firsts, b)
	}
}

// coverRest covers the threads that were created while others were being opened.
func (c *inheritScope) coverRest() error {
	const rounds = 100 // each opens something new: a target that creates threads faster than that is given up on
	for range rounds {
		if err := c.waitForCreators(); err != nil {
			return err
		}
		opened, err := c.pass()
		if err != nil {
			return err
		}
		if !opened {
			break
		}
	}
	c.live, c.whole = true, nil
	return nil
}

// waitForCreators waits until no creator can be in a clone(2) that it began before its events were complete, or its next
// thread's FORK record came.
func (c *inheritScope) waitForCreators() error {
	for until := time.Now().Add(patience); ; time.Sleep(time.Millisecond / 2) {
		if err := c.set.drainWhileArming(); err != nil {
			return err
		}
		for tid, k := range c.creators {
			if k.outOfClone(c.set.target.TaskClock(tid)) {
				delete(c.creators, tid)
			}
		}
		if len(c.creators) == 0 || time.Now().After(until) {
			return nil
		}
	}
}

// pass looks at each thread that is listed and not known to be covered, and opens what it lacks.
func (c *inheritScope) pass() (opened bool, err error) {
	tids, err := c.list()
	if err != nil {
		return false, err
	}
	for _, tid := range tids {
		if c.tasks[tid] != nil || c.whole[tid] {
			continue
		}
		lacked, err := c.cover(tid)
		if err != nil {
			return false, err
		}
		c.whole[tid] = true
		opened = opened || lacked
	}
	return opened, nil
}

// cover opens what a thread lacks, if anything.
func (c *inheritScope) cover(tid int) (lacked bool, err error) {
	missing, err := c.missing(tid)
	if errors.Is(err, unix.ESRCH) {
		return false, nil
	}
	if err != nil || missing == nil {
		return false, err
	}
	return true, c.open(tid, missing)
}

// coverLate looks at the first threads of creators that arming could not wait for.
func (c *inheritScope) coverLate() error {
	firsts := c.firsts
	c.firsts = nil
	for _, b := range firsts {
		missing, err := c.missing(b.tid)
		gap := Gap{TID: b.tid, From: b.time, To: Now()}
		switch {
		case errors.Is(err, unix.ESRCH):
			gap.Detail = "its creator was in the midst of making it when it was to be watched, and it had ended before it could be looked at: it may have been watched in part"
		case err != nil:
			gap.Detail = err.Error()
		case missing == nil:
			continue
		default:
			if err := c.open(b.tid, missing); err != nil {
				gap.Detail = err.Error()
				break
			}
			gap.To = Now()
			gap.Detail = "it was watched in part only: its creator was in the midst of making it when it was to be watched"
		}
		c.set.addHole(gap)
	}
	return nil
}

// missing tells how many of the slots a thread lacks on each CPU: the last ones. nil says that it has all.
func (c *inheritScope) missing(tid int) ([]int, error) {
	if err := c.measureOthers(); err != nil {
		return nil, err
	}
	slots := len(c.set.cfg.Slots)
	lacks := false
	missing := make([]int, len(c.set.cpus))
	for i, cpu := range c.set.cpus {
		n, err := c.used(tid, cpu)
		if err != nil {
			return nil, err
		}
		missing[i] = min(max(slots-(n-c.others[i]), 0), slots)
		lacks = lacks || missing[i] > 0
	}
	if !lacks {
		return nil, nil
	}
	return missing, nil
}

// measureOthers finds out how many hardware slots somebody else holds on the target's threads, such as a debugger, by a
// thread whose own are known.
func (c *inheritScope) measureOthers() error {
	if c.others != nil {
		return nil
	}
	err := error(unix.ESRCH)
	for tid, t := range c.tasks {
		if len(t.events()) != len(c.set.cfg.Slots)*len(c.set.cpus) {
			continue
		}
		others := make([]int, len(c.set.cpus))
		for i, cpu := range c.set.cpus {
			var n int
			if n, err = c.used(tid, cpu); err != nil {
				break
			}
			others[i] = max(n-len(c.set.cfg.Slots), 0)
		}
		if err == nil {
			c.others = others
			return nil
		}
		if !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	c.others = make([]int, len(c.set.cpus)) // none of the threads is left that could tell
	return nil
}

// used is the number of hardware slots that are taken on a thread and CPU, by how many more the kernel grants.
func (c *inheritScope) used(tid, cpu int) (int, error) {
	attr := c.set.attrs.common(perfabi.TypeBreakpoint, 0, perfabi.AttrDisabled|perfabi.AttrExcludeKernel|perfabi.AttrExcludeHV)
	aim(attr, Slot{Len: 8, Access: "w"})
	var fillers []*event
	defer func() {
		for _, e := range fillers {
			e.close()
		}
	}()
	for len(fillers) < MaxSlots {
		e, err := openEvent(attr, tid, cpu, nil)
		if errors.Is(err, unix.ENOSPC) {
			break
		}
		if err != nil {
			return 0, fmt.Errorf("count the watchpoints of thread %d on cpu %d: %w", tid, cpu, err)
		}
		fillers = append(fillers, e)
	}
	return MaxSlots - len(fillers), nil
}
