package report

import (
	"testing"

	"xw/pkg/wire"
)

// TestLostOfAThread: the ring of a thread moves from CPU to CPU with it, so that the last hit on a CPU does not tell since
// when records were lost.
func TestLostOfAThread(t *testing.T) {
	for scope, want := range map[string]Gap{
		"cpu":    {Kind: gapLost, FromNS: num(10), ToNS: num(20), Detail: "3 records of CPU 1 found no room"},
		"thread": {Kind: gapLost, ToNS: num(20), Detail: "3 records of a thread found no room"},
	} {
		m := newModel(t, func(s *wire.Session) { s.Scope = scope })
		m.Add(onCPU(1, hit(10, 7, 0x400, 1)))
		m.Add(&wire.Lost{Time: 20, CPU: 1, N: 3})
		r := finish(m, wire.Counts{Counted: 4, Lost: 3})
		if len(r.Gaps) != 2 || r.Gaps[1] != want {
			t.Errorf("scope %s: gaps %+v, want %+v", scope, r.Gaps, want)
		}
	}
}
