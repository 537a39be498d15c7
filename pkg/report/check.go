package report

import (
	"fmt"

	"xw/pkg/wire"
)

// slotState is what is known of one slot of a watch.
type slotState struct {
	hits    uint64
	value   wire.Opt // what stands there as far as hits and checks have shown
	since   uint64   // when that was shown
	checks  int
	decided bool // at the latest check it was known whether something else had written the bytes
}

// check takes what a slot held while no hit came. If the samples until then are all that there were, the bytes must be
// those that the last of them left, or that the check before found.
func (m *Model) check(w *watch, r *wire.Check) {
	s := &w.slots[w.slotAt(r.Addr)]
	s.checks++
	s.decided = false
	if !r.Hits.OK || !r.Value.OK || s.hits != r.Hits.V {
		return
	}
	switch {
	case !s.value.OK && s.hits > 0: // the last hit came without its value
		return
	case s.value.OK && s.value != r.Value:
		w.changed = true
		m.gaps.add(Gap{Kind: gapChangedWithoutHit, Watch: num(w.id), FromNS: num(s.since), ToNS: num(r.Time),
			Detail: Text(fmt.Sprintf("%s stands there, and what was seen last is %s: another process, another mapping of the page, "+
				"or an access that makes no hit can do this", Hex(r.Value), Hex(s.value)))})
	}
	s.value, s.since, s.decided = r.Value, r.Time, true
}

// changedWithoutHit tells whether the watched bytes were changed by something that made no hit, if that is known: all
// slots were looked at when watching began and before it ended.
func (w *watch) changedWithoutHit() *bool {
	changed := w.changed
	if !changed && w.unchecked {
		return nil
	}
	for i := range w.slots {
		if !changed && (w.slots[i].checks < 2 || !w.slots[i].decided) {
			return nil
		}
	}
	return &changed
}
