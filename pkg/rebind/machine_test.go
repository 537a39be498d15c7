package rebind

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"xw/pkg/wire"
)

// follower runs a Machine against a world.
type follower struct {
	t       *testing.T
	w       *world
	m       *Machine
	covered []interval // what the records say of the leaf's blindness
	log     []string
	said    []string
	sent    int
	highest map[uint32]uint64
}

type interval struct{ from, to uint64 }

func follow(t *testing.T, w *world) *follower {
	f := &follower{t: t, w: w, highest: map[uint32]uint64{}}
	send := func(r wire.Record) error {
		f.log = append(f.log, fmt.Sprintf("  %s %+v", r.Kind(), r))
		f.sent++
		w.commands = append(w.commands, r)
		if _, ok := r.(*wire.Read); ok {
			return nil
		}
		level, gen, _ := parts(r)
		if gen <= f.highest[uint32(level)] || gen < 2 {
			t.Errorf("%s %+v: the generation does not rise", r.Kind(), r)
		}
		f.highest[uint32(level)] = gen
		return nil
	}
	say := func(format string, args ...any) { f.said = append(f.said, fmt.Sprintf(format, args...)) }
	m, err := NewMachine(w.session(), send, nil, say)
	if err != nil {
		t.Fatal(err)
	}
	f.m = m
	return f
}

func (f *follower) take(records ...wire.Record) {
	for _, r := range records {
		f.log = append(f.log, fmt.Sprintf("%s %+v", r.Kind(), r))
		f.added(f.m.Take(r))
	}
}

func (f *follower) added(records []wire.Record) {
	leaf := uint64(len(f.w.armed) - 1)
	for _, r := range records {
		f.log = append(f.log, fmt.Sprintf("    + %s %+v", r.Kind(), r))
		switch r := r.(type) {
		case *wire.Rebind:
			if uint64(r.Watch) == leaf && r.New.OK {
				f.covered = append(f.covered, interval{r.CauseTime, r.Time})
			}
		case *wire.Gap:
			if r.Watch == wire.Some(leaf) && r.Reason == blind {
				to := ^uint64(0)
				if r.To.OK {
					to = r.To.V
				}
				f.covered = append(f.covered, interval{r.From.V, to})
			}
		}
	}
}

// quiet lets everything that is under way come to an end.
func (f *follower) quiet() {
	f.t.Helper()
	for range 2000 {
		f.take(f.w.round()...)
		if len(f.w.commands) > 0 {
			f.w.serve()
			f.w.advance()
			continue
		}
		if len(f.w.samples) > 0 {
			f.w.advance()
			continue
		}
		if f.m.chains[0].pending.kind == none {
			return
		}
		f.w.now += patience // an answer was lost
		f.take(&wire.Comm{Time: f.w.now})
	}
	f.t.Fatalf("never comes to rest:\n%s", strings.Join(f.log[len(f.log)-40:], "\n"))
}

// checkPlaces wants every level where it belongs.
func (f *follower) checkPlaces() {
	f.t.Helper()
	for j := range f.w.armed {
		if want := f.w.place(j); f.w.armed[j] != want {
			f.t.Errorf("level %d is armed at %v, want %v", j, f.w.armed[j], want)
		}
	}
}

// checkBlind wants all blind time accounted for.
func (f *follower) checkBlind() {
	f.t.Helper()
	for _, t := range f.w.blind {
		if !slices.ContainsFunc(f.covered, func(i interval) bool { return i.from <= t && t <= i.to }) {
			f.t.Errorf("the leaf was blind at %d, and nothing says so", t)
			return
		}
	}
}

// play stores pointers at random moments, in between any two steps of xw-open and with any delay of the stream.
func (f *follower) play(steps int) {
	w := f.w
	pace, delay := 1+w.rng.IntN(30), 1+w.rng.IntN(6)
	for range steps {
		if w.oneIn(pace) {
			w.store()
		}
		w.advance()
		if w.oneIn(2) {
			w.serve()
		}
		w.advance()
		if w.oneIn(delay) {
			f.take(w.round()...)
		}
	}
}

// TestWorlds wants every chain to end where the memory says, and every moment in which its leaf was not there told.
func TestWorlds(t *testing.T) {
	for _, test := range []struct {
		name   string
		faults faults
		places bool // all levels must end where they belong
		blind  bool // all blind moments must be told
		said   bool // messages are expected
	}{
		{"whole", faults{}, true, true, false},
		{"skewed", faults{skewed: 5}, true, false, false},
		{"late", faults{late: 4}, true, false, false},
		{"skewed and late", faults{skewed: 4, late: 4}, true, false, false},
		{"lost", faults{lost: 6}, true, false, false},
		{"mute", faults{mute: 4}, true, true, true},
		{"errno", faults{errno: 4}, false, true, true},
		{"all", faults{skewed: 9, late: 9, lost: 9, mute: 9, errno: 9}, false, false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(300) {
				levels, values := 2+int(seed%3), seed/3%2 == 0
				f := follow(t, newWorld(seed, levels, values, test.faults))
				f.play(400)
				f.quiet()
				f.added(f.m.Finish())
				if test.places {
					f.checkPlaces()
				}
				if test.blind {
					f.checkBlind()
				}
				if f.m.Lost() != nil || len(f.said) != 0 && !test.said {
					t.Errorf("said %q, lost %v", f.said, f.m.Lost())
				}
				if t.Failed() {
					t.Fatalf("seed %d, %d levels, values %v, log:\n%s", seed, levels, values, strings.Join(f.log, "\n"))
				}
			}
		})
	}
}

// TestSampleIsNotAllocatedFor takes hits of a leaf and of a slot that change nothing: all that a busy stream consists of.
func TestSampleIsNotAllocatedFor(t *testing.T) {
	m, err := NewMachine(&chainHeader().Session, func(r wire.Record) error { t.Errorf("sent %+v", r); return nil }, nil, t.Errorf)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range chainStart()[1:] {
		m.Take(r)
	}
	leaf, slot := &wire.Sample{Time: 2 * ms, Watch: 1, Addr: 0x2010, Generation: 1}, storeAt(2*ms, 0x2000)
	if n := testing.AllocsPerRun(100, func() {
		leaf.Time++
		m.Take(leaf)
		slot.Time++
		m.Take(slot)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkTakeSample(b *testing.B) {
	m, err := NewMachine(&chainHeader().Session, nil, nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	for _, r := range chainStart()[1:] {
		m.Take(r)
	}
	s := &wire.Sample{Time: 2 * ms, Watch: 1, Addr: 0x2010, Generation: 1}
	for b.Loop() {
		s.Time++
		m.Take(s)
	}
}
