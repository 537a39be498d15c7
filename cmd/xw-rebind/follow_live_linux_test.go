package main

import (
	"fmt"
	"os/exec"
	"testing"
	"time"

	"xw/pkg/hwtest"
	"xw/pkg/wire"
)

// writing is some accesses to the leaf of a chain, by one thread, while it was bound to one address.
type writing struct {
	addr   uint64   // of the leaf
	values []uint64 // that stood there after each
	at     did
}

// counting returns n numbers from first on.
func counting(first uint64, n int) (list []uint64) {
	for i := range n {
		list = append(list, first+uint64(i))
	}
	return list
}

// moves is a run in which a chain moves now and then, with accesses to the leaf in between.
type moves struct {
	leaf     uint32 // its watch
	writings []writing
	moved    []did // the pointer stores, one less than writings
}

// check holds the stream and the report against what the target did.
func (m *moves) check(s *result) {
	s.t.Helper()
	s.counted()
	m.checkBindings(s)
	m.checkRebinds(s)
}

// checkBindings looks for every access in its binding.
func (m *moves) checkBindings(s *result) {
	t := s.t
	t.Helper()
	bindings := s.bindings(uint64(m.leaf))
	if len(bindings) != len(m.writings) {
		t.Fatalf("%d bindings, want %d", len(bindings), len(m.writings))
	}
	for i, w := range m.writings {
		b := bindings[i]
		if b.addr() != w.addr || b.Hits != uint64(len(w.values)) || b.Generation != uint64(i+1) || b.Errno != nil {
			t.Errorf("binding %d: generation %d at %#x with %d hits, want at %#x with %d", i+1, b.Generation, b.addr(), b.Hits, w.addr, len(w.values))
		}
	}
	samples := s.samples(m.leaf)
	for i, w := range m.writings {
		for j, value := range w.values {
			if len(samples) == 0 {
				t.Fatalf("no sample for access %d in binding %d", j, i+1)
			}
			hit := samples[0]
			samples = samples[1:]
			if hit.Generation != uint64(i+1) || hit.Addr != w.addr || hit.Time < w.at.from || hit.Time > w.at.to ||
				hit.Value.OK && hit.Value.V != value {
				t.Errorf("access %d in binding %d, at %#x: sample %+v", j, i+1, w.addr, hit)
			}
		}
	}
	if len(samples) > 0 {
		t.Errorf("%d samples too many, the first %+v", len(samples), samples[0])
	}
}

// checkRebinds looks at what is told of the moves, and of the time in which the leaf was not watched.
func (m *moves) checkRebinds(s *result) {
	t := s.t
	t.Helper()
	var rebinds []*wire.Rebind
	for _, r := range all[*wire.Rebind](s) {
		if r.Watch == m.leaf {
			rebinds = append(rebinds, r)
		}
	}
	bounds := map[uint64]*wire.Bound{}
	for _, b := range all[*wire.Bound](s) {
		if b.Watch == m.leaf && bounds[b.Generation] == nil {
			bounds[b.Generation] = b
		}
	}
	gaps := s.blind(uint64(m.leaf))
	if len(rebinds) != len(m.moved) || len(gaps) != len(m.moved) || s.Complete != (len(gaps) == 0) || len(s.gapsBut("blind")) > 0 {
		t.Fatalf("%d moves, %d rebind records, complete %v, gaps %+v", len(m.moved), len(rebinds), s.Complete, s.Gaps)
	}
	var total, longest uint64
	for i, moved := range m.moved {
		r, b, g := rebinds[i], bounds[uint64(i+2)], gaps[i]
		if b == nil || r.New.V != m.writings[i+1].addr || r.Old.V != m.writings[i].addr || r.Generation != uint64(i+2) {
			t.Fatalf("move %d: %+v, bound %+v", i+1, r, b)
		}
		if r.CauseTime < moved.from || r.CauseTime > moved.to || *g.From != r.CauseTime || *g.To != b.Time {
			t.Errorf("move %d between %d and %d: cause %d, bound %d, blind from %d to %d", i+1, moved.from, moved.to, r.CauseTime, b.Time, *g.From, *g.To)
		}
		total += *g.To - *g.From
		longest = max(longest, *g.To-*g.From)
	}
	for _, c := range s.Chains {
		if c.Levels[len(c.Levels)-1] != uint64(m.leaf) {
			continue
		}
		if c.Rebinds != uint64(len(m.moved)) || c.Blind != total || c.Longest != longest {
			t.Errorf("chain %s: %d rebinds, blind for %d, at the longest %d; want %d, %d, %d", c.Name, c.Rebinds, c.Blind, c.Longest, len(m.moved), total, longest)
		}
	}
}

// way is a way of watching, by the flags of xw-open.
type way struct {
	name    string
	args    []string
	threads int
	nobody  bool
}

var ways = []way{
	{"cpu", []string{"--scope", "cpu"}, 2, false},
	{"inherit", []string{"--scope", "inherit"}, 8, false},
	{"thread", []string{"--scope", "thread"}, 8, false},
	{"cpu, values off", []string{"--scope", "cpu", "--values", "off"}, 2, false},
	{"inherit, values off", []string{"--scope", "inherit", "--values", "off"}, 8, false},
	{"auto, unprivileged", nil, 8, true},
	{"thread, unprivileged", []string{"--scope", "thread"}, 8, true},
}

// start starts a puppet and, after prepare, what watches it.
func (w way) start(t *testing.T, prepare func(p puppet), watches ...string) (puppet, *pipeline) {
	t.Helper()
	program := hwtest.BuildC(t, puppetProgram)
	s := setup{args: w.args}
	if w.nobody {
		hwtest.RequireRoot(t)
		s.user = nobody()
		program = shared(t, program)
	}
	cmd := exec.Command(program, fmt.Sprint(w.threads))
	cmd.SysProcAttr = s.user
	p := startPuppetCmd(t, cmd)
	prepare(p)
	for _, watch := range watches {
		s.args = append(s.args, "--watch", watch)
	}
	s.args = append(s.args, "--pid", p.pid())
	pipe := startPipeline(t, s)
	pipe.ready()
	return p, pipe
}

// TestReallocated follows an object that is allocated anew 40 times, every 20 ms, with 5 stores to a field of it in each
// life, by changing threads.
func TestReallocated(t *testing.T) {
	hwtest.Require(t)
	const field, lives, stores, period = 0x28, 40, 5, 20 * time.Millisecond
	for _, how := range ways {
		for _, alternate := range []bool{false, true} {
			name := how.name
			if alternate {
				name += ", two addresses"
			}
			t.Run(name, func(t *testing.T) {
				var object, spare uint64
				p, pipe := how.start(t, func(p puppet) {
					object = p.list()[0]
					spare = p.alloc(0x80) + 0x40
				}, "hp=anchor->0x28:4:w")
				m := moves{leaf: 1}
				write := func(life int) {
					first := uint64(life) << 8
					at := p.do((life+1)%how.threads, "store %#x 4 %#x %d", object+field, first, stores)
					m.writings = append(m.writings, writing{object + field, counting(first, stores), at})
				}
				write(0)
				for life := 1; life <= lives; life++ {
					next := time.Now().Add(period)
					old := object
					if object = spare; !alternate {
						object = p.alloc(0x80) + 0x40
					}
					moved := p.point(life%how.threads, p.anchor, object)
					if spare = old; !alternate {
						p.do(life%how.threads, "free %#x", old-0x40)
					}
					m.moved = append(m.moved, moved)
					pipe.bound(1, object+field, moved.from)
					write(life)
					time.Sleep(time.Until(next))
				}
				m.check(pipe.stop())
			})
		}
	}
}
