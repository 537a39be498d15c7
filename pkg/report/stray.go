package report

import (
	"fmt"

	"xw/pkg/wire"
)

// lead is where the slot of a header or pointer leads, as far as hits and readings have shown.
type lead struct {
	addr  uint64   // of the slot
	value wire.Opt // absent if the slot could not be read, or was written and the value is not known
	since uint64   // when that was shown
	hit   bool     // by a hit; else by a reading
	lost  bool     // no: hits were lost
}

// stray is a time in which a level is not armed where the slot above it leads.
type stray struct {
	open   bool
	since  uint64
	reason string
	doubt  bool // it is only not known where the slot leads
}

const (
	leftBehind = "the pointer changed and the watch was not moved"
	unasked    = "the pointer was written, and nothing asked for its value"
	overlooked = "hits on the pointer were lost, and nothing asked for its value"
	unreadable = "the pointer could not be read"
)

// leads takes what a hit shows of where the slot of w leads. One at the next address, before the record that w was moved
// there, is kept until then.
func (w *watch) leads(s *wire.Sample) {
	if w.child == nil {
		return
	}
	l := lead{addr: s.Addr, value: s.Value, since: s.Time, hit: true}
	if w.Parent.OK && w.bind.armed != wire.Some(s.Addr) {
		w.early = l
		return
	}
	w.lead = l
	w.review(s.Time, false)
}

// asked takes the answer to a reading of the slot, which a store during the reading may have made old.
func (w *watch) asked(r *wire.Bound) {
	if w.child == nil || w.lead.hit && w.lead.since >= r.Start && w.lead.value.OK {
		return
	}
	w.lead = lead{addr: r.Addr.V, value: r.Value, since: r.Time}
	w.review(r.Time, false)
}

// missed takes that hits on the slot may have been lost since a time.
func (w *watch) missed(since uint64) {
	if w.child == nil || !w.begun {
		return
	}
	w.lead = lead{addr: w.lead.addr, since: since, hit: true, lost: true}
	w.review(since, false)
}

// moved takes a new binding of w.
func (w *watch) moved(r *wire.Bound) {
	w.begun = true
	if w.child != nil {
		w.lead = lead{addr: r.Addr.V, value: r.Value, since: r.Start}
		if e := w.early; e.addr == r.Addr.V && e.since >= r.Start && e.value.OK {
			w.lead = e
		}
		w.early = lead{}
	}
	if w.parent != nil {
		w.look(r.Time, true)
	}
	w.review(r.Time, true)
}

// review looks at the levels below w after its slot has shown where it leads, or w was moved.
func (w *watch) review(t uint64, moved bool) {
	for c := w.child; c != nil; c = c.child {
		c.look(t, moved)
	}
}

// look compares where w is armed with where it belongs.
func (w *watch) look(t uint64, moved bool) {
	if !w.begun {
		return
	}
	s := &w.stray
	since, reason, doubt := w.astray()
	switch {
	case reason != "" && !s.open:
		*s = stray{true, since, reason, doubt}
	case reason != "":
		s.reason, s.doubt = reason, s.doubt && doubt
	case s.open:
		v := interval{from: s.since, to: t, detail: s.reason}
		if moved && s.reason != w.misaligned() {
			v.detail = "" // moved, as it should: whoever moved it knows more
		}
		if moved || !s.doubt {
			w.bind.blind.add(v)
		}
		*s = stray{}
	}
}

// astray says why w is not armed where the slot above leads, and since when; "" if it is, or if there is nothing to watch.
func (w *watch) astray() (since uint64, reason string, doubt bool) {
	p := w.parent
	switch l := &p.lead; {
	case p.stray.open:
		return p.stray.since, p.stray.reason, p.stray.doubt
	case !p.bind.armed.OK: // by the slots above there is nothing
	case !l.value.OK && l.lost:
		return l.since, overlooked, true
	case !l.value.OK && l.hit:
		return l.since, unasked, true
	case !l.value.OK:
		return l.since, unreadable, false
	default:
		addr := l.value.V + uint64(w.Offset)
		if limit := wire.UserEnd(w.bits); l.value.V == 0 || l.value.V >= limit || addr == 0 || addr >= limit {
			return 0, "", false // no address of a process: nothing can be written there
		}
		if w.Len > 0 && addr%w.Len != 0 {
			return l.since, w.misaligned(), false
		}
		if w.bind.armed != wire.Some(addr) {
			return l.since, leftBehind, false
		}
	}
	return 0, "", false
}

func (w *watch) misaligned() string {
	return fmt.Sprintf("the pointer leads to an address that is no multiple of %d, where no slot can watch so many bytes", w.Len)
}
