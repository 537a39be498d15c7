package report

import (
	"cmp"
	"fmt"
	"slices"

	"xw/pkg/wire"
)

// bindings are the addresses at which a level of a chain was armed, one after the other, and the intervals in which it
// was not armed although it should have been.
type bindings struct {
	list   []binding // ascending generations, the first MaxEntries
	folded struct {
		count, hits uint64
		from        uint64 // when the first of them began
	}
	rebinds uint64

	// since is when the pointer above was written, of a re-binding that has not been answered.
	since   wire.Opt
	reason  string // why it has not, if somebody said so
	pending uint64 // its generation

	blind blindness

	armed wire.Opt // the present address
}

type binding struct {
	generation uint64
	addr       wire.Opt
	start      uint64   // before the first ioctl
	bound      uint64   // after the last
	value      wire.Opt // what was read after arming
	to         wire.Opt
	known      bool // a bound record told of it
	errno      uint32
	hits       uint64
}

// find returns the index of a generation's binding, or where it would stand.
func (b *bindings) find(generation uint64) (int, bool) {
	if n := len(b.list); n > 0 && b.list[n-1].generation == generation {
		return n - 1, true
	}
	return slices.BinarySearchFunc(b.list, generation, func(e binding, g uint64) int {
		return cmp.Compare(e.generation, g)
	})
}

// obtain returns the index of a generation's binding, which is added if need be; false if there are too many.
func (b *bindings) obtain(generation uint64) (int, bool) {
	i, found := b.find(generation)
	if found {
		return i, true
	}
	if len(b.list) >= MaxEntries {
		return 0, false
	}
	b.list = slices.Insert(b.list, i, binding{generation: generation})
	return i, true
}

func (b *bindings) hit(s *wire.Sample) {
	i, ok := b.obtain(s.Generation)
	if !ok {
		b.folded.hits++
		return
	}
	e := &b.list[i]
	if !e.known {
		e.addr = wire.Some(s.Addr)
	}
	e.hits++
}

// bound takes an answer of xw-open: a binding, an unbinding, or the binding as it stands.
func (w *watch) bound(r *wire.Bound) {
	b := &w.bind
	i, ok := b.obtain(r.Generation)
	if !ok {
		b.fold(r)
	} else if e := &b.list[i]; e.known && e.errno == 0 {
		if e.start == r.Start && e.bound == r.Time { // said again at the beginning of another file
			return
		}
		if !w.slots[0].value.OK { // the answer to a read
			w.slots[0].value, w.slots[0].since = r.Value, r.Time
		}
		w.asked(r)
		return
	} else {
		e.addr, e.value, e.start, e.bound, e.errno, e.known = r.Addr, r.Value, r.Start, r.Time, r.Errno, true
		if i > 0 && !b.list[i-1].to.OK {
			b.list[i-1].to = wire.Some(r.Start)
		}
	}
	b.arm(r)
	w.slots[0].value, w.slots[0].since = wire.Opt{}, r.Time
	if r.Errno == 0 {
		w.slots[0].value = r.Value
	}
	w.moved(r)
}

// fold counts a binding that is one too many.
func (b *bindings) fold(r *wire.Bound) {
	if b.folded.count == 0 {
		b.folded.from = r.Start
		if n := len(b.list); n > 0 && !b.list[n-1].to.OK {
			b.list[n-1].to = wire.Some(r.Start)
		}
	}
	b.folded.count++
}

// arm ends the blind interval that r answers, or begins one if the kernel refused the address.
func (b *bindings) arm(r *wire.Bound) {
	if r.Errno != 0 {
		b.armed = wire.Opt{}
		b.lose(r.Start, "")
		b.pending = max(b.pending, r.Generation)
		return
	}
	b.armed = r.Addr
	if b.since.OK && b.pending <= r.Generation {
		if r.Addr.OK {
			b.blind.add(interval{from: b.since.V, to: r.Time, detail: b.reason})
		}
		b.since, b.reason = wire.Opt{}, ""
	}
}

// rebind takes a record of xw-rebind: the pointer above was found changed by a hit at CauseTime.
func (w *watch) rebind(r *wire.Rebind) {
	b := &w.bind
	if !r.New.OK { // nothing to watch any more
		if b.since.OK && b.pending <= r.Generation {
			b.since, b.reason = wire.Opt{}, ""
		}
		return
	}
	b.rebinds++
	if i, ok := b.find(r.Generation); ok { // its bound came first
		if e := &b.list[i]; e.known && e.errno == 0 && e.addr.OK {
			b.blind.add(interval{from: r.CauseTime, to: e.bound, detail: w.meanwhile(r, e)})
			return
		}
	}
	b.lose(r.CauseTime, "")
	b.pending = max(b.pending, r.Generation)
}

// lose says that the level is not armed where it should be, from t until the next bound.
func (b *bindings) lose(t uint64, reason string) {
	if !b.since.OK || t < b.since.V {
		b.since = wire.Some(t)
	}
	b.reason = cmp.Or(b.reason, reason)
}

// pointed is the last write of a pointer: the time, the pointer and the bytes of the leaf that it leads to.
type pointed struct {
	time           uint64
	pointer, child wire.Opt
}

// meanwhile says what became of the leaf's bytes from the write of the pointer until the leaf was armed at its new place.
// The bytes at both times do not tell what was written in between.
func (w *watch) meanwhile(r *wire.Rebind, e *binding) string {
	if w.parent == nil {
		return ""
	}
	p := &w.parent.pointed
	switch {
	case p.time != r.CauseTime || !p.child.OK || !e.value.OK || !p.pointer.OK || p.pointer.V+uint64(w.Offset) != r.New.V:
		return ""
	case p.child == e.value:
		return noNetChange
	}
	return fmt.Sprintf("%s stood there when the pointer was written, and %s when the watch was armed", Hex(p.child), Hex(e.value))
}

// interval is a span of time in which a watch was blind.
type interval struct {
	from, to uint64
	detail   string
}

// blindness sums the blind intervals of a watch. Those that overlap are one.
type blindness struct {
	start   uint64     // of the session: what was before does not count
	list    []interval // ascending and apart; the first MaxEntries and the last
	dropped dropped    // that are not in list
	total   uint64     // a ceiling, where one overlaps some of those that were dropped
	longest uint64
}

// dropped are intervals of which only the sum is kept.
type dropped struct {
	n, total uint64
	from, to uint64 // of all
}

func (b *blindness) add(v interval) {
	v.from = max(v.from, b.start)
	if v.to < v.from {
		if v.to < b.start {
			return
		}
		v.to = v.from
	}
	if d := &b.dropped; d.n > 0 && v.from <= d.from && v.to >= d.to {
		b.total -= d.total
		*d = dropped{}
	}
	end := len(b.list) // of those that begin before v ends
	for end > 0 && b.list[end-1].from > v.to {
		end--
	}
	first := end // of those that overlap it
	for ; first > 0 && b.list[first-1].to >= v.from; first-- {
		v = v.join(b.list[first-1])
	}
	for _, e := range b.list[first:end] {
		b.total -= e.to - e.from
	}
	b.total += v.to - v.from
	b.longest = max(b.longest, v.to-v.from)
	if n := len(b.list); first == end && n > MaxEntries {
		b.dropped.add(b.list[n-1])
		first, end = n-1, n
	}
	b.list = slices.Replace(b.list, first, end, v)
}

func (d *dropped) add(v interval) {
	if d.n == 0 {
		d.from = v.from
	}
	d.n, d.total, d.from, d.to = d.n+1, d.total+v.to-v.from, min(d.from, v.from), max(d.to, v.to)
}

// noNetChange is what can be said of a blind interval at both ends of which the same bytes stood there.
const noNetChange = "no net change while blind"

// join makes one of two intervals that overlap. That nothing changed in one says nothing of the other.
func (v interval) join(o interval) interval {
	same := v.from == o.from && v.to == o.to
	for _, e := range []*interval{&v, &o} {
		if !same && e.detail == noNetChange {
			e.detail = ""
		}
	}
	return interval{from: min(v.from, o.from), to: max(v.to, o.to), detail: cmp.Or(o.detail, v.detail)}
}
