package report

import (
	"strings"
	"testing"

	"xw/pkg/wire"
)

// TestOwnReads: the kernel takes what the frame pointer leads to for a stack frame, of two words. What it reads of the
// watched bytes is counted like a hit of the target, and is none.
func TestOwnReads(t *testing.T) {
	for _, test := range []struct {
		name    string
		access  string
		rbp     uint64
		chain   []uint64
		more    uint64 // counted beyond the hits
		missed  uint64
		counted uint64 // in the report, of two hits
		gaps    int
	}{
		{"the saved frame pointer", "rw", 0x1000, []uint64{0x400}, 2, 2, 2, 0},
		{"the return address", "r", 0xff8, []uint64{0x400}, 2, 2, 2, 0},
		{"both", "rw", 0xffc, []uint64{0x400}, 4, 4, 2, 0},
		{"of neither", "rw", 0x1008, []uint64{0x400}, 2, 2, 4, 1},
		{"more than these", "rw", 0x1000, []uint64{0x400}, 3, 3, 5, 1},
		{"hits that went missing otherwise", "rw", 0x1000, []uint64{0x400}, 2, 0, 4, 1},
		{"a watch for writes", "w", 0x1000, []uint64{0x400}, 2, 2, 4, 1},
		{"no call chain", "rw", 0x1000, nil, 2, 2, 4, 1},
		{"nothing counted beyond", "rw", 0x1000, []uint64{0x400}, 0, 0, 2, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := newModel(t, func(s *wire.Session) { s.Watches[0].Access, s.Callchain = test.access, test.chain != nil })
			for i := range uint64(2) {
				s := hit(10*(i+1), 7, 0x400, i)
				s.Callchain, s.Regs = test.chain, registers(i, 0, 0, 0)
				s.Regs[8*rbpAt], s.Regs[8*rbpAt+1] = byte(test.rbp), byte(test.rbp>>8)
				m.Add(s)
			}
			r := finish(m, wire.Counts{Counted: 2 + test.more, Emitted: 2, Missed: test.missed})
			w := &r.Watches[0]
			if w.Counted != num(test.counted) || len(r.Gaps) != test.gaps || len(r.Notes) > 0 != (test.more > 0 && test.gaps == 0) {
				t.Errorf("counted %v, gaps %v, notes %v", w.Counted, r.Gaps, r.Notes)
			}
			maybe := test.chain != nil && test.access != "w" && test.missed > 0
			for _, g := range r.Gaps {
				if said := strings.Contains(string(g.Detail), "try it without --callchain"); said != maybe {
					t.Errorf("%s, want a word on call chains %v", g.Detail, maybe)
				}
			}
		})
	}
}
