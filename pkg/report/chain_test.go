package report

import (
	"math/rand/v2"
	"slices"
	"testing"

	"xw/pkg/wire"
)

// chainModel is a model of a pointer and a leaf at +0x10, bound at 0x5000 and 0x5010.
func chainModel(t testing.TB) *Model {
	m := newModel(t, func(s *wire.Session) {
		s.Watches = []wire.Watch{
			{ID: 0, Name: "p", Access: "w", Len: 8, Role: "pointer", Chain: wire.Some(0), Slots: []wire.Slot{{Addr: 0x100, Len: 8}}},
			{ID: 1, Name: "p", Access: "w", Len: 4, Role: "leaf", Chain: wire.Some(0), Parent: wire.Some(0), Offset: 16,
				Slots: []wire.Slot{{Addr: 0x5010, Len: 4}}},
		}
	})
	m.Add(&wire.Bound{Time: 1, Watch: 0, Generation: 1, Addr: wire.Some(0x100), Value: wire.Some(0x5000)})
	m.Add(&wire.Bound{Time: 1, Watch: 1, Generation: 1, Addr: wire.Some(0x5010)})
	return m
}

func pointerHit(time, value uint64) *wire.Sample {
	return &wire.Sample{Time: time, Generation: 1, Addr: 0x100, Value: wire.Some(value)}
}

func leafHit(time, generation, addr uint64) *wire.Sample {
	return &wire.Sample{Time: time, Watch: 1, Generation: generation, Addr: addr}
}

func rebound(time, generation, addr uint64) *wire.Bound {
	return &wire.Bound{Time: time, Start: time - 5, Watch: 1, Generation: generation, Addr: wire.Some(addr)}
}

// readAnswer is the answer to a reading of the pointer, which took 20.
func readAnswer(time, value uint64) *wire.Bound {
	return &wire.Bound{Time: time, Start: time - 20, Watch: 0, Generation: 1, Addr: wire.Some(0x100), Value: wire.Some(value)}
}

func rebinding(cause, generation, addr uint64) *wire.Rebind {
	return &wire.Rebind{Time: cause + 1, Watch: 1, Generation: generation, New: wire.Some(addr), CauseTime: cause}
}

// endChain ends the session at 1000 with the counts that hits make complete.
func endChain(m *Model) *Report {
	for i, w := range m.watches {
		m.Add(&wire.Counts{Time: 1000, Watch: uint32(i), Counted: w.hits - w.past.Counted})
	}
	m.Add(&wire.End{Info: wire.EndInfo{EndNS: 1000}})
	m.Finish(nil)
	return m.Report()
}

func TestBlindTime(t *testing.T) {
	for _, test := range []struct {
		name           string
		records        []wire.Record
		rebinds, blind uint64
		longest        uint64
		gaps           int
	}{
		{name: "never moved"},
		{name: "moved once", rebinds: 1, blind: 50, longest: 50, gaps: 1,
			records: []wire.Record{pointerHit(100, 0x6000), rebinding(100, 2, 0x6010), rebound(150, 2, 0x6010)}},
		{name: "bound seen before the rebind record", rebinds: 1, blind: 50, longest: 50, gaps: 1,
			records: []wire.Record{pointerHit(100, 0x6000), rebound(150, 2, 0x6010), rebinding(100, 2, 0x6010)}},
		{name: "moved twice before the first bound", rebinds: 2, blind: 90, longest: 90, gaps: 1,
			records: []wire.Record{pointerHit(100, 0x6000), rebinding(100, 2, 0x6010), pointerHit(120, 0x7000),
				rebinding(120, 3, 0x7010), rebound(150, 2, 0x6010), rebound(190, 3, 0x7010)}},
		{name: "moved twice", rebinds: 2, blind: 30, longest: 20, gaps: 2,
			records: []wire.Record{pointerHit(100, 0x6000), rebinding(100, 2, 0x6010), rebound(120, 2, 0x6010),
				pointerHit(200, 0x5000), rebinding(200, 3, 0x5010), rebound(210, 3, 0x5010)}},
		{name: "null is not blind",
			records: []wire.Record{pointerHit(100, 0), &wire.Rebind{Time: 101, Watch: 1, Generation: 2, CauseTime: 100},
				&wire.Bound{Time: 150, Start: 145, Watch: 1, Generation: 2}}},
		{name: "refused, then not moved any more", rebinds: 1, blind: 900, longest: 900, gaps: 1,
			records: []wire.Record{pointerHit(100, 0x6000), rebinding(100, 2, 0x6010),
				&wire.Bound{Time: 150, Start: 145, Watch: 1, Generation: 2, Addr: wire.Some(0x6010), Errno: 22}}},
		{name: "no answer", rebinds: 1, blind: 900, longest: 900, gaps: 1,
			records: []wire.Record{pointerHit(100, 0x6000), rebinding(100, 2, 0x6010)}},
		{name: "nobody moved it", blind: 700, longest: 700, gaps: 1,
			records: []wire.Record{pointerHit(100, 0x5000), pointerHit(300, 0x6000)}},
		{name: "rewritten with what it was",
			records: []wire.Record{pointerHit(100, 0x5000)}},
		{name: "value unknown and nobody asked", blind: 900, longest: 900, gaps: 1,
			records: []wire.Record{&wire.Sample{Time: 100, Generation: 1, Addr: 0x100}}},
		{name: "xw-rebind gave up", blind: 800, longest: 800, gaps: 1,
			records: []wire.Record{&wire.Gap{Reason: gapBlind, Watch: wire.Some(1), From: wire.Some(200), Detail: "no answer"}}},
		{name: "away and back, and nobody moved it", blind: 200, longest: 200, gaps: 1,
			records: []wire.Record{pointerHit(100, 0x6000), pointerHit(300, 0x5000)}},
		{name: "away, null and away again", blind: 700, longest: 500, gaps: 2,
			records: []wire.Record{pointerHit(100, 0x6000), pointerHit(300, 0), pointerHit(500, 0x6000)}},
		{name: "moved to where the pointer was before", rebinds: 1, blind: 900, longest: 900, gaps: 1,
			records: []wire.Record{pointerHit(100, 0x6000), pointerHit(120, 0x7000), rebound(150, 2, 0x6010), rebinding(100, 2, 0x6010)}},
		{name: "the leaf is misaligned", blind: 300, longest: 300, gaps: 1,
			records: []wire.Record{pointerHit(100, 0x6002), &wire.Bound{Time: 150, Start: 145, Watch: 1, Generation: 2},
				&wire.Rebind{Time: 150, Watch: 1, Generation: 2, CauseTime: 100}, pointerHit(400, 0)}},
		{name: "no address of a process",
			records: []wire.Record{pointerHit(100, 1<<47), pointerHit(200, ^uint64(0)-15)}},
		{name: "the value is asked for", blind: 100, longest: 100, gaps: 1,
			records: []wire.Record{&wire.Sample{Time: 100, Generation: 1, Addr: 0x100}, readAnswer(150, 0x6000), rebound(200, 2, 0x6010)}},
		{name: "the value is asked for and is what it was",
			records: []wire.Record{&wire.Sample{Time: 100, Generation: 1, Addr: 0x100}, readAnswer(150, 0x5000)}},
		{name: "asked for once, and not again", blind: 700, longest: 700, gaps: 1,
			records: []wire.Record{&wire.Sample{Time: 100, Generation: 1, Addr: 0x100}, readAnswer(150, 0x5000),
				&wire.Sample{Time: 300, Generation: 1, Addr: 0x100}}},
		{name: "a store during the reading", blind: 820, longest: 820, gaps: 1,
			records: []wire.Record{pointerHit(180, 0x6000), readAnswer(190, 0x5000)}},
		{name: "told of twice", rebinds: 1, blind: 60, longest: 60, gaps: 1,
			records: []wire.Record{pointerHit(100, 0x6000), rebinding(100, 2, 0x6010), rebound(150, 2, 0x6010),
				&wire.Gap{Reason: gapBlind, Watch: wire.Some(1), From: wire.Some(90), To: wire.Some(150), Detail: "no net change while blind"}}},
	} {
		m := chainModel(t)
		for _, rec := range test.records {
			m.Add(rec)
		}
		r := endChain(m)
		c := r.Chains[0]
		if c.Rebinds != test.rebinds || c.BlindNS != test.blind || c.LongestBlindNS != test.longest {
			t.Errorf("%s: %d rebinds, blind for %d, at the longest %d", test.name, c.Rebinds, c.BlindNS, c.LongestBlindNS)
		}
		if len(r.Gaps) != test.gaps || r.Complete != (test.gaps == 0) {
			t.Errorf("%s: complete %v, gaps %+v", test.name, r.Complete, r.Gaps)
		}
		for _, g := range r.Gaps {
			if g.Kind != gapBlind || g.Watch != num(1) || !g.FromNS.OK || !g.ToNS.OK {
				t.Errorf("%s: gap %+v", test.name, g)
			}
		}
	}
}

// TestLostPointerHits: where hits on the pointer were lost it may have moved.
func TestLostPointerHits(t *testing.T) {
	lost := &wire.Gap{Time: 300, Reason: gapLost, Watch: wire.Some(0), From: wire.Some(200), To: wire.Some(300)}
	for _, test := range []struct {
		name    string
		lost    uint64 // hits on the pointer, by the counts
		records []wire.Record
		want    []interval
	}{
		{"it is where it was", 1, []wire.Record{pointerHit(100, 0x5000), lost, readAnswer(400, 0x5000)}, nil},
		{"it has moved", 1, []wire.Record{lost, readAnswer(400, 0x6000), rebound(450, 2, 0x6010), rebinding(200, 2, 0x6010)},
			[]interval{{from: 200, to: 450}}},
		{"nobody asked", 1, []wire.Record{lost}, []interval{{200, 1000, overlooked}}},
		{"the next hit tells", 1, []wire.Record{lost, pointerHit(500, 0x5000)}, nil},
		{"some records were lost", 1, []wire.Record{pointerHit(100, 0x5000), &wire.Lost{Time: 300, N: 1}}, []interval{{100, 1000, overlooked}}},
		{"some records were lost, but none of the pointer", 0, []wire.Record{pointerHit(100, 0x5000), &wire.Lost{Time: 300, N: 1}}, nil},
	} {
		m := chainModel(t)
		for _, rec := range test.records {
			m.Add(rec)
		}
		m.Add(&wire.Counts{Time: 1000, Watch: 0, Counted: m.watches[0].hits + test.lost, Lost: test.lost})
		m.Add(&wire.Counts{Time: 1000, Watch: 1})
		m.Add(&wire.End{Info: wire.EndInfo{EndNS: 1000}})
		m.Finish(nil)
		var got []interval
		for _, g := range m.Report().Gaps {
			if g.Kind == gapBlind {
				got = append(got, interval{g.FromNS.V, g.ToNS.V, string(g.Detail)})
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: blind %v, want %v", test.name, got, test.want)
		}
	}
}

// TestMeanwhile: what the leaf's bytes at both ends of a blind interval tell.
func TestMeanwhile(t *testing.T) {
	for _, test := range []struct {
		child, bound wire.Opt
		cause        uint64
		want         Text
	}{
		{wire.Some(5), wire.Some(5), 100, "no net change while blind"},
		{wire.Some(5), wire.Some(6), 100, "0x5 stood there when the pointer was written, and 0x6 when the watch was armed"},
		{wire.Opt{}, wire.Some(5), 100, ""},
		{wire.Some(5), wire.Opt{}, 100, ""},
		{wire.Some(5), wire.Some(5), 90, ""}, // an earlier write was the cause: what it led to was not looked at
	} {
		m := chainModel(t)
		write := pointerHit(100, 0x6000)
		write.Child = test.child
		m.Add(write)
		answer := rebound(150, 2, 0x6010)
		answer.Value = test.bound
		m.Add(answer)
		m.Add(rebinding(test.cause, 2, 0x6010))
		if gaps := endChain(m).Gaps; len(gaps) != 1 || gaps[0].Detail != test.want {
			t.Errorf("%+v: gaps %+v", test, gaps)
		}
	}
}

// TestHeaderMoves: while a header leads elsewhere, everything below it is blind.
func TestHeaderMoves(t *testing.T) {
	header := func(time, value uint64) *wire.Sample {
		return &wire.Sample{Time: time, Generation: 1, Addr: 0x100, Value: wire.Some(value)}
	}
	pointer := func(time, addr, value uint64) *wire.Sample {
		return &wire.Sample{Time: time, Watch: 1, Addr: addr, Value: wire.Some(value)}
	}
	bound := func(watch uint32, time, generation, addr, value uint64) *wire.Bound {
		return &wire.Bound{Time: time, Start: time - 5, Watch: watch, Generation: generation, Addr: wire.Some(addr), Value: wire.Some(value)}
	}
	for _, test := range []struct {
		name          string
		records       []wire.Record
		pointer, leaf []interval
	}{
		{name: "followed", pointer: []interval{{from: 100, to: 120}}, leaf: []interval{{from: 100, to: 150}},
			records: []wire.Record{header(100, 0x3000), bound(1, 120, 2, 0x3008, 0x6000), bound(2, 150, 2, 0x6010, 0)}},
		{name: "followed by the pointer only", pointer: []interval{{from: 100, to: 120}}, leaf: []interval{{100, 1000, leftBehind}},
			records: []wire.Record{header(100, 0x3000), bound(1, 120, 2, 0x3008, 0x6000)}},
		{name: "the same leaf below another header", pointer: []interval{{from: 100, to: 120}}, leaf: []interval{{from: 100, to: 120}},
			records: []wire.Record{header(100, 0x3000), bound(1, 120, 2, 0x3008, 0x5000)}},
		{name: "not followed", pointer: []interval{{100, 1000, leftBehind}}, leaf: []interval{{100, 1000, leftBehind}},
			records: []wire.Record{header(100, 0x3000), pointer(200, 0x2008, 0x5000)}},
		{name: "the pointer is written before it is known to have moved", pointer: []interval{{from: 100, to: 120}}, leaf: []interval{{from: 100, to: 150}},
			records: []wire.Record{header(100, 0x3000), pointer(118, 0x3008, 0x6000), bound(1, 120, 2, 0x3008, 0x5500), bound(2, 150, 2, 0x6010, 0)}},
		{name: "a late hit of the old place", pointer: []interval{{from: 100, to: 120}}, leaf: []interval{{from: 100, to: 150}},
			records: []wire.Record{header(100, 0x3000), pointer(110, 0x2008, 0x7000), bound(1, 120, 2, 0x3008, 0x6000), bound(2, 150, 2, 0x6010, 0)}},
		{name: "the new pointer cannot be read", pointer: []interval{{from: 100, to: 120}}, leaf: []interval{{100, 1000, unreadable}},
			records: []wire.Record{header(100, 0x3000), &wire.Bound{Time: 120, Start: 115, Watch: 1, Generation: 2, Addr: wire.Some(0x3008)}}},
		{name: "null at the top",
			records: []wire.Record{header(100, 0), &wire.Bound{Time: 120, Start: 115, Watch: 1, Generation: 2}}},
	} {
		m := newModel(t, func(s *wire.Session) {
			s.Watches = []wire.Watch{
				{ID: 0, Access: "w", Len: 8, Role: "header", Chain: wire.Some(0), Slots: []wire.Slot{{Addr: 0x100, Len: 8}}},
				{ID: 1, Access: "w", Len: 8, Role: "pointer", Chain: wire.Some(0), Parent: wire.Some(0), Offset: 8, Slots: []wire.Slot{{Addr: 0x2008, Len: 8}}},
				{ID: 2, Access: "w", Len: 4, Role: "leaf", Chain: wire.Some(0), Parent: wire.Some(1), Offset: 16, Slots: []wire.Slot{{Addr: 0x5010, Len: 4}}},
			}
		})
		m.Add(bound(0, 11, 1, 0x100, 0x2000))
		m.Add(bound(1, 12, 1, 0x2008, 0x5000))
		m.Add(bound(2, 13, 1, 0x5010, 0))
		for _, rec := range test.records {
			m.Add(rec)
		}
		r := endChain(m)
		want := []Gap{}
		for i, list := range [][]interval{test.pointer, test.leaf} {
			for _, v := range list {
				want = append(want, Gap{Kind: gapBlind, Watch: num(uint64(i + 1)), FromNS: num(v.from), ToNS: num(v.to), Detail: Text(v.detail)})
			}
		}
		if !slices.Equal(r.Gaps, want) {
			t.Errorf("%s: gaps %+v, want %+v", test.name, r.Gaps, want)
		}
	}
}

// TestBlindness adds intervals in any order and compares with counting every moment.
func TestBlindness(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		b := blindness{start: 5}
		var dark [40]bool
		for range random.IntN(6) {
			from := random.Uint64N(30)
			v := interval{from: from, to: from + 1 + random.Uint64N(9)}
			b.add(v)
			for i := max(from, 5); i < v.to; i++ {
				dark[i] = true
			}
		}
		var total, shown uint64
		for _, d := range dark {
			if d {
				total++
			}
		}
		for i, v := range b.list {
			shown += v.to - v.from
			if v.from > v.to || i > 0 && b.list[i-1].to >= v.from {
				t.Fatalf("intervals %v", b.list)
			}
		}
		if b.total != total || shown != total {
			t.Fatalf("%v: total %d, want %d", b.list, b.total, total)
		}
	}
}

// TestBlindnessBeyondTheLimit: an interval that covers all others takes the place of those that were not kept, too.
func TestBlindnessBeyondTheLimit(t *testing.T) {
	var b blindness
	for i := range uint64(2 * MaxEntries) {
		b.add(interval{from: 10 * i, to: 10*i + 4})
	}
	if len(b.list) != MaxEntries+1 || b.dropped.n != MaxEntries-1 || b.total != 4*2*MaxEntries || b.longest != 4 {
		t.Errorf("%d kept, %d dropped, %d in all, %d at the longest", len(b.list), b.dropped.n, b.total, b.longest)
	}
	b.add(interval{from: 5, to: 30 * MaxEntries})
	if len(b.list) != 2 || b.dropped.n != 0 || b.total != 30*MaxEntries-5+4 {
		t.Errorf("%v, %d dropped, %d in all", b.list, b.dropped.n, b.total)
	}
}

// TestJoined: what is said of an interval is not said of a longer one.
func TestJoined(t *testing.T) {
	for _, test := range []struct {
		first, second interval
		want          string
	}{
		{interval{10, 20, ""}, interval{10, 20, noNetChange}, noNetChange},
		{interval{10, 20, noNetChange}, interval{10, 20, noNetChange}, noNetChange},
		{interval{10, 20, noNetChange}, interval{15, 30, noNetChange}, ""},
		{interval{10, 20, leftBehind}, interval{15, 30, noNetChange}, leftBehind},
		{interval{10, 20, ""}, interval{5, 15, unasked}, unasked},
	} {
		var b blindness
		b.add(test.first)
		b.add(test.second)
		if len(b.list) != 1 || b.list[0].detail != test.want {
			t.Errorf("%v and %v: %v", test.first, test.second, b.list)
		}
	}
}

// TestBindings moves a leaf between two addresses, 40 times, with 5 hits on each.
func TestBindings(t *testing.T) {
	m := chainModel(t)
	addr := [2]uint64{0x5010, 0x6010}
	for g := uint64(1); g <= 41; g++ {
		at := 20 * g
		if g > 1 {
			m.Add(pointerHit(at, addr[(g-1)%2]-16))
			m.Add(rebinding(at, g, addr[(g-1)%2]))
			m.Add(rebound(at+6, g, addr[(g-1)%2]))
		}
		for range 5 {
			m.Add(leafHit(at+10, g, addr[(g-1)%2]))
		}
	}
	c := endChain(m).Chains[0]
	if c.Rebinds != 40 || len(c.Levels) != 2 || c.BlindNS != 40*6 || len(c.Bindings) != 42 {
		t.Fatalf("%d rebinds, levels %v, blind for %d, %d bindings", c.Rebinds, c.Levels, c.BlindNS, len(c.Bindings))
	}
	for i, b := range c.Bindings[1:] {
		g := uint64(i + 1)
		if b.Watch != 1 || b.Generation != num(g) || b.Addr != hex(addr[i%2]) || b.Hits != 5 || b.ToNS.OK != (g < 41) {
			t.Errorf("binding %+v", b)
		}
	}
}

func TestManyBindingsAreFolded(t *testing.T) {
	m := chainModel(t)
	for g := uint64(2); g <= MaxEntries+100; g++ {
		m.Add(pointerHit(20*g, 0x100*g-16))
		m.Add(rebinding(20*g, g, 0x100*g))
		m.Add(rebound(20*g+6, g, 0x100*g))
		m.Add(leafHit(20*g+10, g, 0x100*g))
	}
	r := endChain(m)
	c := r.Chains[0]
	last := c.Bindings[len(c.Bindings)-1]
	if len(c.Bindings) != MaxEntries+1 || last.Folded.V < 100 || c.BlindNS != 6*(MaxEntries+99) {
		t.Errorf("%d bindings, the last %+v, blind for %d", len(c.Bindings), last, c.BlindNS)
	}
	sum := uint64(0)
	for _, b := range c.Bindings {
		sum += b.Hits
	}
	if sum != 2*(MaxEntries+99) { // of the pointer and the leaf
		t.Errorf("%d hits in bindings", sum)
	}
}
