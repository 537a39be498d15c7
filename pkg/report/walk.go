package report

import (
	"fmt"

	"xw/pkg/wire"
)

// With call chains the kernel itself reads what the frame pointer leads to, at each hit. Code that keeps no frame pointers
// may have the address of the watched bytes in that register: of a watch for reads, the kernel's own reading is a hit then.
// No program is run for it, no record made, but it is counted.

// rbpAt is where the frame pointer stands among the general registers.
const rbpAt = 6

// walk counts the hits that the kernel made when it took the call chain of s. It reads a saved frame pointer and a return
// address behind it, one after the other (perf_callchain_user in arch/x86/events/core.c); further frames are not told.
func (w *watch) walk(s *wire.Sample, slot int, layout *regLayout) {
	at := layout.order[rbpAt]
	if s.Callchain == nil || s.Origin != 0 || w.Access != "rw" && w.Access != "r" || s.Regs == nil || at < 0 || !layout.fits(s.Regs) {
		return
	}
	frame, word := reg(s.Regs, at), w.bits/8
	for _, start := range []uint64{frame, frame + word} {
		for i := range w.Slots {
			addr := w.Slots[i].Addr
			if i == slot {
				addr = s.Addr // that of a chain's level moves
			}
			if start < addr+w.slotLen(i) && addr < start+word {
				w.walked++
			}
		}
	}
}

// ownReads is how many of the counted hits were the kernel's own: if they are all that was counted beyond the others.
func (w *watch) ownReads() uint64 {
	c := &w.counts
	if w.hits+c.AfterStop+c.Lost+w.walked != c.Counted || c.Missed != w.walked {
		return 0
	}
	return w.walked
}

// totals are the counts of a watch without the kernel's own reads.
func (w *watch) totals() wire.Counts {
	c, n := w.counts, w.ownReads()
	c.Counted -= n
	c.Missed -= n
	return c
}

// walkNote says what totals leaves out; "" for nothing.
func (w *watch) walkNote() string {
	n := w.ownReads()
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%s: %s of the kernel's own left out: it looked for a stack frame there to take the call chain", w.Name, plural(n, "hit"))
}
