package main

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"xw/pkg/hwtest"
	"xw/pkg/wire"
)

// shape is a chain and how its leaf is accessed.
type shape struct {
	name    string
	flags   []string // of the compiler
	offsets []int64
	length  uint64
	access  string
}

var shapes = []shape{
	{"one hop", nil, []int64{0x28}, 4, "w"},
	{"two hops", nil, []int64{0x10, 0x28}, 4, "w"},
	{"three hops", nil, []int64{0x10, 0x18, 0x28}, 4, "w"},
	{"no offset", nil, []int64{0, 0}, 4, "w"},
	{"negative offsets", nil, []int64{-0x10, -0x28}, 4, "w"},
	{"1 byte", nil, []int64{0x2b}, 1, "w"},
	{"2 bytes", nil, []int64{0x2a}, 2, "w"},
	{"8 bytes", nil, []int64{0x28}, 8, "w"},
	{"reads and writes", nil, []int64{0x28}, 4, "rw"},
	{"reads", nil, []int64{0x28}, 4, "r"},
	{"32 bits, one hop", []string{"-m32"}, []int64{0x28}, 4, "w"},
	{"32 bits, three hops", []string{"-m32"}, []int64{0x4, -0x1c, 0x28}, 4, "rw"},
}

// accessLeaf has a thread access the leaf at an address: 5 stores and, if the watch sees them, 2 loads.
func (s shape) accessLeaf(p puppet, thread int, addr, first uint64) writing {
	w := writing{addr: addr, values: counting(first, 5)}
	w.at = p.do(thread, "store %#x %d %#x 5", addr, s.length, first)
	if s.access != "w" {
		w.at.to = p.do(thread, "load %#x %d 2", addr, s.length).to
		w.values = append(w.values, first+4, first+4)
	}
	return w
}

// TestShapes follows chains of all shapes while each of their objects is replaced, with all that hangs on it, by another.
func TestShapes(t *testing.T) {
	hwtest.Require(t)
	for _, s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			if s.flags != nil {
				hwtest.RequireC(t, s.flags...)
			}
			s.test(t, startPuppet(t, 2, s.flags...))
		})
	}
}

func (s shape) test(t *testing.T, p puppet) {
	hops := len(s.offsets)
	objects := p.list(s.offsets[:hops-1]...)
	watch := fmt.Sprintf("hp=%s:%d:%s", arrow(s.offsets...), s.length, s.access)
	pipe := startPipeline(t, setup{args: []string{"--pid", p.pid(), "--watch", watch}})
	pipe.ready()

	place := func(level int) uint64 { return objects[level-1] + uint64(s.offsets[level-1]) }
	m := moves{leaf: uint32(hops)}
	levels := make([][]uint64, hops) // addresses of each level but the top
	note := func(from int) {
		for level := from; level <= hops; level++ {
			levels[level-1] = append(levels[level-1], place(level))
		}
		m.writings = append(m.writings, s.accessLeaf(p, len(m.writings)%2, place(hops), uint64(len(m.writings))<<4))
	}
	note(1)
	for range 3 {
		for level := 1; level <= hops; level++ {
			// The new objects are complete before anything points to them.
			for i := level; i <= hops; i++ {
				objects[i-1] = p.alloc(0x80) + 0x40
				if i > level {
					p.point(0, place(i-1), objects[i-1])
				}
			}
			slot := p.anchor
			if level > 1 {
				slot = place(level - 1)
			}
			moved := p.point(level%2, slot, objects[level-1])
			m.moved = append(m.moved, moved)
			pipe.bound(m.leaf, place(hops), moved.from)
			note(level)
		}
	}
	result := pipe.stop()
	m.check(result)
	for level, want := range levels {
		bindings := result.bindings(uint64(level + 1))
		if len(bindings) != len(want) {
			t.Fatalf("level %d: %d bindings, want %d", level+1, len(bindings), len(want))
		}
		for i, b := range bindings {
			if b.addr() != want[i] {
				t.Errorf("level %d, binding %d: %#x, want %#x", level+1, i+1, b.addr(), want[i])
			}
		}
	}
	roles := []string{"header", "header", "header", "pointer", "leaf"}[4-hops:]
	for i, w := range result.Watches {
		if w.Role != roles[i] {
			t.Errorf("watch %d has the role %s, want %s", i, w.Role, roles[i])
		}
	}
}

// TestExecuted follows a pointer to a function.
func TestExecuted(t *testing.T) {
	hwtest.Require(t)
	p := startPuppet(t, 2)
	functions := []uint64{p.Uint("first"), p.Uint("second")}
	p.point(0, p.anchor, functions[0])
	pipe := startPipeline(t, setup{args: []string{"--pid", p.pid(), "--watch", "f=anchor->0:x"}})
	pipe.ready()
	m := moves{leaf: 1}
	for i := range 6 {
		f := functions[i%2]
		if i > 0 {
			moved := p.point(1, p.anchor, f)
			m.moved = append(m.moved, moved)
			pipe.bound(1, f, moved.from)
		}
		m.writings = append(m.writings, writing{f, counting(0, 3), p.do(0, "call %#x 3", f)})
		p.do(0, "call %#x 1", functions[(i+1)%2])
	}
	m.check(pipe.stop())
}

// TestShared has chains and plain watches side by side.
func TestShared(t *testing.T) {
	hwtest.Require(t)
	for _, test := range []struct {
		name    string
		watches []string
		chains  []shape // with the offsets of their leaf only
		leaves  []uint32
		plain   uint32
	}{
		{"two chains", []string{"a=anchor->0x28:4", "b=anchor+8->0x10:8:rw"},
			[]shape{{offsets: []int64{0x28}, length: 4, access: "w"}, {offsets: []int64{0x10}, length: 8, access: "rw"}}, []uint32{1, 3}, 0},
		{"a chain between plain watches", []string{"plain", "a=anchor->0x28:4", "c=anchor+24"},
			[]shape{{offsets: []int64{0x28}, length: 4, access: "w"}}, []uint32{2}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := startPuppet(t, 2)
			args := []string{"--pid", p.pid()}
			for _, w := range test.watches {
				args = append(args, "--watch", w)
			}
			objects := make([]uint64, len(test.chains))
			for i := range objects {
				objects[i] = p.alloc(0x80)
				p.point(0, p.anchor+8*uint64(i), objects[i])
			}
			pipe := startPipeline(t, setup{args: args})
			if slots := pipe.ready()["slots"]; slots != "4" {
				t.Errorf("%s slots", slots)
			}
			runs := make([]moves, len(test.chains))
			for round := range 5 {
				for i, s := range test.chains {
					m := &runs[i]
					m.leaf = test.leaves[i]
					leaf := func() uint64 { return objects[i] + uint64(s.offsets[0]) }
					if round > 0 {
						objects[i] = p.alloc(0x80)
						moved := p.point(round%2, p.anchor+8*uint64(i), objects[i])
						m.moved = append(m.moved, moved)
						pipe.bound(m.leaf, leaf(), moved.from)
					}
					m.writings = append(m.writings, s.accessLeaf(p, i%2, leaf(), uint64(round)<<4))
				}
				p.do(0, "store %#x 4 1 3", p.plain)
			}
			result := pipe.stop()
			for _, m := range runs {
				m.checkBindings(result)
			}
			if len(result.blind(uint64(runs[0].leaf))) != 4 || len(result.gapsBut("blind")) > 0 {
				t.Errorf("gaps %+v", result.Gaps)
			}
			if result.Watches[0].Role == "plain" && result.Watches[0].Hits != 15 {
				t.Errorf("the plain watch has %d hits", result.Watches[0].Hits)
			}
		})
	}
}

// TestTooMany: what does not fit the slots is refused with the arithmetic.
func TestTooMany(t *testing.T) {
	hwtest.Require(t)
	p := startPuppet(t, 1)
	for _, test := range []struct {
		watches []string
		want    string
	}{
		{[]string{"a=anchor->0x10->0x18->0x28", "plain"},
			"too many watchpoints: 5 needed, x86 has 4 per thread: a 4 (4 levels), plain 1 (4 bytes at "},
		{[]string{"a=anchor->0x10", "b=anchor+8->0x10->0x10"},
			"too many watchpoints: 5 needed, x86 has 4 per thread: a 2 (2 levels), b 3 (3 levels)"},
		{[]string{"a=anchor->0->0->0->0"}, "too many watchpoints: 5 needed, x86 has 4 per thread: a 5 (5 levels)"},
		{[]string{"a=anchor->0x10:16"}, "1, 2, 4 or 8"},
	} {
		args := []string{"--pid", p.pid()}
		for _, w := range test.watches {
			args = append(args, "--watch", w)
		}
		cmd := exec.Command(binary(t, "xw-open"), args...)
		var said strings.Builder
		cmd.Stderr = &said
		out, err := cmd.Output()
		if err == nil || len(out) > 0 || !strings.Contains(said.String(), test.want) {
			t.Errorf("%q: %v, %d bytes, said\n%s", test.watches, err, len(out), &said)
		}
	}
}

// TestLevels: the stream that the chain makes has its levels in the header, with their parents and offsets.
func TestLevels(t *testing.T) {
	hwtest.Require(t)
	p := startPuppet(t, 1)
	objects := p.list(0x10)
	pipe := startPipeline(t, setup{args: []string{"--pid", p.pid(), "--watch", "plain", "--watch", "hp=anchor->0x10->-0x8:2:rw"}})
	pipe.ready()
	result := pipe.stop()
	got := result.events[0].(*wire.Header).Session.Watches[1:]
	want := []wire.Watch{
		{ID: 1, Role: "header", Addr: wire.Some(p.anchor), Len: 8, Access: "w"},
		{ID: 2, Role: "pointer", Addr: wire.Some(objects[0] + 0x10), Len: 8, Access: "w", Parent: wire.Some(1), Offset: 0x10},
		{ID: 3, Role: "leaf", Addr: wire.Some(objects[1] - 8), Len: 2, Access: "rw", Parent: wire.Some(2), Offset: -8},
	}
	for i, w := range want {
		g := got[i]
		if g.ID != w.ID || g.Role != w.Role || g.Addr != w.Addr || g.Len != w.Len || g.Access != w.Access || g.Parent != w.Parent ||
			g.Offset != w.Offset || g.Chain != wire.Some(0) || g.Name != "hp" {
			t.Errorf("got %+v, want %+v", g, w)
		}
	}
	if c := result.Chains[0]; !result.Complete || c.Rebinds != 0 || c.Blind != 0 || fmt.Sprint(c.Levels) != "[1 2 3]" {
		t.Errorf("complete %v, chain %+v, gaps %+v", result.Complete, c, result.Gaps)
	}
}
