package report

import (
	"strings"
	"testing"

	"xw/pkg/wire"
)

// nextFile ends the present stream of m as a rotated file ends and goes on with another one.
func nextFile(t *testing.T, m *Model, end, start uint64) error {
	t.Helper()
	for i, w := range m.watches {
		m.Add(&wire.Counts{Time: end, Watch: uint32(i), Counted: w.hits - w.past.Counted})
	}
	m.Add(&wire.End{Info: wire.EndInfo{StopReason: stopRotated, EndNS: end, ThreadsSeen: 3}})
	m.Finish(nil)
	h := &wire.Header{Version: 1, Stream: wire.Events, Session: m.session}
	h.Session.StartNS = start
	return m.Continue(h)
}

// TestChainInFiles: a file begins with the bindings as they stand, which is no answer to anybody and no new binding.
func TestChainInFiles(t *testing.T) {
	again := func(m *Model) { // as they were bound at first
		m.Add(&wire.Bound{Time: 1, Watch: 0, Generation: 1, Addr: wire.Some(0x100), Value: wire.Some(0x5000)})
		m.Add(&wire.Bound{Time: 1, Watch: 1, Generation: 1, Addr: wire.Some(0x5010)})
	}
	m := chainModel(t)
	m.Add(leafHit(50, 1, 0x5010))
	if err := nextFile(t, m, 100, 100); err != nil {
		t.Fatal(err)
	}
	again(m)
	m.Add(leafHit(150, 1, 0x5010))
	m.Add(pointerHit(200, 0x6000))
	m.Add(rebinding(200, 2, 0x6010))
	m.Add(rebound(250, 2, 0x6010))
	m.Add(leafHit(260, 2, 0x6010))
	r := endChain(m)
	c := r.Chains[0]
	if c.Rebinds != 1 || c.BlindNS != 50 || len(c.Bindings) != 3 || c.Bindings[1].Hits != 2 || c.Bindings[2].Hits != 1 || len(r.Gaps) != 1 {
		t.Errorf("chain %+v, gaps %+v", c, r.Gaps)
	}

	m = chainModel(t)
	m.Add(pointerHit(50, 0x5000))
	if err := nextFile(t, m, 100, 100); err != nil {
		t.Fatal(err)
	}
	again(m)
	noValue := pointerHit(150, 0)
	noValue.Value = wire.Opt{}
	m.Add(noValue)
	if r := endChain(m); len(r.Gaps) != 1 || !strings.Contains(string(r.Gaps[0].Detail), "nothing asked for its value") {
		t.Errorf("a pointer was written and nobody asked: gaps %+v", r.Gaps)
	}
}

// TestChainOfTwoSessions: the generations of another session are others.
func TestChainOfTwoSessions(t *testing.T) {
	m := chainModel(t)
	m.Add(&wire.End{Info: wire.EndInfo{StopReason: "duration", EndNS: 100}})
	m.Finish(nil)
	h := &wire.Header{Version: 1, Stream: wire.Events, Session: m.session}
	h.Session.StartNS = 200
	if err := m.Continue(h); err == nil || !strings.Contains(err.Error(), "there is a chain") {
		t.Errorf("error %v", err)
	}
}

// TestThrottledAtTheEnd: what the kernel stopped in one session is not stopped in the next.
func TestThrottledAtTheEnd(t *testing.T) {
	m := newModel(t, nil)
	m.Add(&wire.Throttle{Time: 50, CPU: 1, On: true})
	if err := nextFile(t, m, 100, 200); err != nil {
		t.Fatal(err)
	}
	r := finish(m, wire.Counts{})
	if len(r.Gaps) != 2 || r.Gaps[0].Kind != gapThrottled || r.Gaps[0].ToNS != num(100) || r.Gaps[1].Kind != gapTruncated ||
		r.Gaps[1].FromNS != num(100) || r.Gaps[1].ToNS != num(200) {
		t.Errorf("gaps %+v", r.Gaps)
	}
}

// TestCountsOfOneStreamMissing: then there are none of the whole.
func TestCountsOfOneStreamMissing(t *testing.T) {
	m := newModel(t, nil)
	m.Add(hit(10, 7, 1, 1))
	m.Add(&wire.End{Info: wire.EndInfo{StopReason: stopRotated, EndNS: 100}})
	m.Finish(nil)
	h := &wire.Header{Version: 1, Stream: wire.Events, Session: m.session}
	h.Session.StartNS = 100
	if err := m.Continue(h); err != nil {
		t.Fatal(err)
	}
	m.Add(hit(110, 7, 1, 1))
	r := finish(m, wire.Counts{Counted: 1})
	if w := r.Watches[0]; w.Counted.OK || w.Hits != 2 || r.Complete || len(r.Gaps) != 1 || r.Gaps[0].Kind != gapCountMismatch {
		t.Errorf("counted %v, complete %v, gaps %+v", w.Counted, r.Complete, r.Gaps)
	}
}

// TestProcessIDUsedAgain: the main thread of a later stream was born at another time.
func TestProcessIDUsedAgain(t *testing.T) {
	const tick = 10e6
	for birth, wrong := range map[uint64]bool{1e9: false, 1e9 + tick: false, 1e9 - tick: false, 3e9: true} {
		m := newModel(t, func(s *wire.Session) { s.Target.PID = 7 })
		m.Add(&wire.Thread{PID: 7, TID: 7, Birth: 1e9})
		if err := nextFile(t, m, 100, 100); err != nil {
			t.Fatal(err)
		}
		m.Add(&wire.Thread{PID: 7, TID: 7, Birth: birth})
		if (m.Err() != nil) != wrong {
			t.Errorf("born at %d: %v", birth, m.Err())
		}
	}
}
