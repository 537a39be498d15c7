package report

import "xw/pkg/wire"

// What is counted of whole accesses. Whether hits that look like the iterations of a rep string instruction are that is
// known late, so the same is counted of single hits, in site.

const (
	// maxSlots is how many watchpoints x86 has.
	maxSlots = 4
	// maxSpan is how many bytes they can cover.
	maxSpan = 8 * maxSlots
)

// wholeAccesses are the accesses that began at a site.
type wholeAccesses struct {
	silent silent
	old    wire.Opt             // what the slot of the last hit held before its access
	spans  *[maxSpan + 1]uint64 // accesses of several iterations by the watched bytes they touched
}

// access is what the hits of one access add up to so far. What it adds to the counts of its site is taken back and added
// anew with each hit.
type access struct {
	site    *site  // where it began
	epoch   uint64 // of the watch
	slots   [maxSlots]slotChange
	unknown bool // it hit a slot that no CPU has
	counted bool
	kept    bool   // the value stayed as it was
	bytes   uint64 // touched by its iterations; 0 while there was one
}

// slotChange is what an access did to one slot.
type slotChange struct {
	hit      bool
	old, now wire.Opt
}

// begin makes a an access that begins at a site.
func (a *access) begin(st *site, epoch uint64) { *a = access{site: st, epoch: epoch} }

// extend adds an iteration over n bytes. The first one is taken to be like the second.
func (a *access) extend(n, most uint64) {
	st := a.site
	if st.whole.spans == nil {
		st.whole.spans = new([maxSpan + 1]uint64)
	}
	if a.bytes > 0 {
		st.whole.spans[a.bytes]--
	} else {
		a.bytes = n
	}
	a.bytes = min(a.bytes+n, most, maxSpan)
	st.whole.spans[a.bytes]++
}

// take adds a hit of a slot.
func (a *access) take(slot int, old, now wire.Opt) {
	a.count(-1)
	if slot >= maxSlots {
		a.unknown, a.counted = true, false
		return
	}
	c := &a.slots[slot]
	if !c.hit {
		c.hit, c.old = true, old
	}
	c.now = now
	a.counted, a.kept = !a.unknown, true
	for i := range a.slots {
		if c := &a.slots[i]; c.hit {
			a.counted = a.counted && c.old.OK && c.now.OK
			a.kept = a.kept && c.old == c.now
		}
	}
	a.count(1)
}

// count adds the access to the counts of its site, or takes it back.
func (a *access) count(n int) {
	if !a.counted {
		return
	}
	a.site.whole.silent.compared += uint64(n)
	if a.kept {
		a.site.whole.silent.same += uint64(n)
	}
}

// before is what a slot held before the access.
func (a *access) before(slot int) wire.Opt {
	if slot >= maxSlots {
		return wire.Opt{}
	}
	return a.slots[slot].old
}
