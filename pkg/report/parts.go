package report

import (
	"errors"
	"fmt"
	"slices"

	"xw/pkg/wire"
)

// stopRotated is the stop reason of a stream after which the capture goes on in another file.
const stopRotated = "rotated"

// birthError is how far two records of the birth of a thread may lie apart: /proc has it to the clock tick, 10 ms.
const birthError = 20e6 // ns

// SameTarget tells why the streams that two headers open cannot be added up; nil if they can.
func SameTarget(a, b *wire.Session) error {
	switch {
	case a.BootID != b.BootID:
		return errors.New("they are not of one boot of one machine")
	case a.Target.PID != b.Target.PID:
		return fmt.Errorf("one is of process %d, one of %d", a.Target.PID, b.Target.PID)
	case a.Target.Exe != b.Target.Exe:
		return fmt.Errorf("one is of program %q, one of %q", a.Target.Exe, b.Target.Exe)
	case !slices.Equal(a.Regs, b.Regs):
		return errors.New("not both have the same registers")
	case len(a.Watches) != len(b.Watches):
		return fmt.Errorf("one has %s, one %d", plural(uint64(len(a.Watches)), "watch"), len(b.Watches))
	}
	for i := range a.Watches {
		if !sameWatch(&a.Watches[i], &b.Watches[i]) {
			return fmt.Errorf("watch %d is %s in one and %s in the other", i, setting(&a.Watches[i]), setting(&b.Watches[i]))
		}
	}
	return nil
}

// setting is what tells a watch from others.
func setting(w *wire.Watch) string {
	return fmt.Sprintf("%q (%s at %s, %s, %s, %s)", w.Name, w.Place, Hex(w.Addr), plural(w.Len, "byte"), w.Access, w.Role)
}

// sameWatch compares what was asked for: the level of a chain moves.
func sameWatch(a, b *wire.Watch) bool {
	fixed := func(w *wire.Watch) wire.Watch {
		f := *w
		f.Slots = slices.Clone(w.Slots)
		if w.Parent.OK {
			f.Addr = wire.Opt{}
			for i := range f.Slots {
				f.Slots[i].Addr = 0
			}
		}
		return f
	}
	x, y := fixed(a), fixed(b)
	if !slices.Equal(x.Slots, y.Slots) {
		return false
	}
	return x.Name == y.Name && x.Place == y.Place && x.Addr == y.Addr && x.Len == y.Len && x.Access == y.Access &&
		x.Role == y.Role && x.Chain == y.Chain && x.Parent == y.Parent && x.Offset == y.Offset
}

// Continue adds a stream to those before, of which Finish has told the end. They have to come in the order of their
// time: parts of one capture, or sessions of the same target. Time between them is a gap.
func (m *Model) Continue(h *wire.Header) error {
	if h.Stream != wire.Events {
		return &StreamError{Stream: h.Stream}
	}
	if err := SameTarget(&m.session, &h.Session); err != nil {
		return fmt.Errorf("add up streams: %w", err)
	}
	start, end := h.Session.StartNS, m.partEnd()
	rotated := m.end != nil && m.end.StopReason == stopRotated
	switch {
	case start < end:
		return fmt.Errorf("add up streams: it begins %s before the stream before it has ended", duration(end-start))
	case !rotated && slices.ContainsFunc(m.watches, func(w *watch) bool { return w.Chain.OK }):
		return errors.New("add up streams: there is a chain, whose bindings are known only from the parts of one capture")
	case m.broken != nil:
		m.gaps.add(Gap{Kind: gapTruncated, Detail: Text(m.broken.Error()), FromNS: num(end), ToNS: num(max(start, end))})
	case start > end:
		m.gaps.add(Gap{Kind: gapTruncated, Detail: between(rotated), FromNS: num(end), ToNS: num(start)})
	}
	m.unwatched += start - end
	if !rotated || start != end {
		m.interrupt()
		m.endThrottle(end)
	}
	for _, w := range m.watches {
		if m.end != nil && !w.hasCounts {
			m.gaps.add(uncounted(w))
		}
		w.nextPart(rotated, start == end)
	}
	for _, n := range h.Session.Notes {
		m.notes.add(n)
	}
	if m.end != nil {
		m.threadsSeen = max(m.threadsSeen, m.end.ThreadsSeen)
	}
	m.end, m.broken, m.done = nil, nil, false
	m.parts++
	m.see(start)
	return nil
}

// partEnd is when the stream before ended, as far as it tells.
func (m *Model) partEnd() uint64 {
	if m.end != nil && m.end.EndNS != 0 {
		return m.end.EndNS
	}
	return m.last
}

// between says what is known of the time between two streams.
func between(rotated bool) Text {
	if rotated {
		return "a file of the capture is not here"
	}
	return "nothing was watched between two sessions"
}

// endThrottle ends the intervals in which the kernel took no samples.
func (m *Model) endThrottle(t uint64) {
	for key, i := range m.paused {
		if i > 0 {
			m.gaps.items[i-1].ToNS = num(t)
		}
		delete(m.paused, key)
	}
}

// nextPart prepares a watch for another stream. The kernel's count of a slot, which checks tell, goes on through the parts
// of one capture.
func (w *watch) nextPart(rotated, adjacent bool) {
	w.past, w.uncounted, w.hasCounts = w.counts, w.uncounted || !w.hasCounts, false
	if rotated && adjacent {
		return
	}
	w.unchecked = w.unchecked || w.changedWithoutHit() == nil
	for i := range w.slots {
		w.slots[i].checks, w.slots[i].decided = 0, false
		if !rotated {
			w.slots[i].hits = 0
		}
	}
}

// takeCounts adds the totals of one stream to those of the streams before.
func (w *watch) takeCounts(r *wire.Counts) {
	c := *r
	c.Counted += w.past.Counted
	c.Emitted += w.past.Emitted
	c.Lost += w.past.Lost
	c.AfterStop += w.past.AfterStop
	c.Foreign += w.past.Foreign
	c.Missed += w.past.Missed
	w.counts, w.hasCounts = c, true
}

// counted tells whether all streams had the totals of a watch.
func (w *watch) counted() bool { return w.hasCounts && !w.uncounted }

// Err tells why what was added cannot be of one target: the process of a later stream is another one.
func (m *Model) Err() error { return m.mixed }

// checkBirth compares the main thread of a later stream with that of the first.
func (m *Model) checkBirth(r *wire.Thread) {
	if uint64(r.TID) != m.session.Target.PID {
		return
	}
	if t := m.threads.byTID[r.TID]; m.parts > 1 && t != nil && t.birth.OK && distance(t.birth.V, r.Birth) > birthError {
		m.mixed = fmt.Errorf("add up streams: the process id %d was used again: these are two processes", r.TID)
	}
}

// rotatedNote says what the counts of a capture without its last part are.
func (m *Model) rotatedNote() string {
	if m.end == nil || m.end.StopReason != stopRotated {
		return ""
	}
	return "the capture goes on in another file: counted are here the hits that were delivered or lost, and only with the " +
		"last file their sum can be held against the kernel's own count"
}
