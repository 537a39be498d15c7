package rebind

import (
	"fmt"

	"xw/pkg/wire"
)

// observation is what a slot held at a time.
type observation struct {
	value   wire.Opt // absent: of a store, not known; of a reading, the slot could not be read
	at      uint64   // ns: the store's sample, or before the reading
	until   uint64   // ns: at, or after the reading
	since   uint64   // ns: from when on it surely held it
	reading bool     // xw-open read it; else a store was sampled
	cpu     uint32   // of the store
}

// skew is how long before the time of its sample a store's value may have been taken, in ns. Both happen in one trap: only
// what interrupts a CPU there, such as a hypervisor, comes between them.
const skew = 1_000_000

// unordered tells whether times cannot tell which of two observations saw the later state.
func unordered(a, b observation) bool {
	switch {
	case a.reading == b.reading && (a.reading || a.cpu == b.cpu):
		return false
	case a.reading:
		return a.at <= b.at && b.at-min(b.at, skew) <= a.until
	case b.reading:
		return unordered(b, a)
	}
	return max(a.at, b.at)-min(a.at, b.at) < skew
}

// firstStore is the time of the earlier one of two observations, a store if one of them is: a reading changes nothing.
func firstStore(earlier, later observation) uint64 {
	if earlier.reading {
		return later.at
	}
	return earlier.at
}

// slot is what is known of the pointer in a header or pointer level while the level is bound.
type slot struct {
	known bool // held was observed
	held  observation
	doubt doubt
	early store // the latest store at the address of the bind that is pending
}

type store struct {
	seen bool
	observation
}

// doubt says that a slot may hold something else than was observed, and has to be read.
type doubt struct {
	open  bool
	since uint64 // ns: the earliest store that may have changed the pointer
	last  uint64 // ns: the latest; a reading that began before it does not settle the matter
	hits  int    // stores whose value is not known
	asked int    // of these, the ones that were known when a reading was asked for
	tries int    // readings since the last store
}

// maxTries bounds the readings for one doubt, against samples from the future.
const maxTries = 3

func (s *slot) question(since, last uint64) {
	if !s.doubt.open {
		s.doubt = doubt{open: true, since: since, last: last}
	}
	s.doubt.since = min(s.doubt.since, since)
	s.doubt.last = max(s.doubt.last, last)
	s.doubt.tries = 0
}

// hit takes a store to slot j of the present binding.
func (c *chain) hit(j int, o observation) {
	s := &c.levels[j].slot
	c.live = true
	if s.known && o.at < s.held.at {
		c.learn(j, o)
		return
	}
	c.retry(j)
	if o.value.OK {
		c.learn(j, o)
		return
	}
	s.question(o.at, o.at)
	s.doubt.hits++
	if c.want(j+1) != c.aim(j+1) { // refused before, to be tried again
		c.mark(j+1, o.at)
	}
}

// learn takes an observation of slot j. The later one by time counts; where time does not tell, the slot is read.
func (c *chain) learn(j int, o observation) {
	s := &c.levels[j].slot
	before := s.held
	failed := before.reading && !before.value.OK
	clash := s.known && !failed && o.value != before.value && unordered(o, before) && (o.value.OK || o.reading)
	if s.known && o.at < before.at {
		if clash {
			s.question(firstStore(o, before), before.at)
		}
		return
	}
	if o.reading && !o.value.OK && before.value.OK && s.doubt.hits == 0 && c.missed < before.at {
		s.doubt = doubt{} // it cannot be read, and was only to tell in which order things came that are known
		return
	}
	since := o.at
	if s.doubt.open {
		since = min(since, s.doubt.since)
	}
	if o.since = o.until; o.reading && s.doubt.open && s.doubt.hits == 1 && s.doubt.last <= o.at {
		o.since = s.doubt.last // it is what the one store left
	}
	s.held, s.known = o, true
	switch {
	case clash:
		s.question(firstStore(before, o), o.at)
	case s.doubt.open && (o.at >= s.doubt.last || s.doubt.tries >= maxTries):
		c.between(j, s.doubt.hits, o)
		s.doubt = doubt{}
	case s.doubt.open: // the last store came while the slot was read, or after
		stores := s.doubt.hits
		if s.doubt.last > o.until {
			stores--
		}
		c.between(j, stores, o)
		s.doubt.since = min(max(s.doubt.since, o.at), s.doubt.last)
		s.doubt.hits, s.doubt.asked = s.doubt.hits-s.doubt.asked, 0
	}
	if !o.value.OK {
		c.fail(since, fmt.Sprintf("the pointer in %s could not be read", c.levels[j].name))
	}
	if c.live && c.want(j+1) != c.aim(j+1) {
		c.mark(j+1, since)
	}
}

// between notes that so many stores without a value lie between the last observation of slot j and o. Only what the last
// of them left can be read: what stood there before is not known.
func (c *chain) between(j, stores int, o observation) {
	if stores > 1 && c.live && c.want(j+1) == c.aim(j+1) {
		l := &c.levels[j]
		c.gap(o.until, blind, l.slot.doubt.since, wire.Some(o.until), fmt.Sprintf(
			"%d stores to %s between two readings of it: it may have pointed elsewhere", stores, l.name))
	}
}
