package main

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"xw/pkg/hwtest"
	"xw/pkg/wire"
)

// field is the offset of the leaf in the objects of these tests.
const field = 0x28

// followed starts a puppet whose anchor points to an object, and what follows that to the object's field.
func followed(t *testing.T, threads int, args ...string) (p puppet, object uint64, pipe *pipeline) {
	t.Helper()
	p = startPuppet(t, threads)
	object = p.list()[0]
	pipe = startPipeline(t, setup{args: append([]string{"--pid", p.pid(), "--watch", "hp=anchor->0x28:4"}, args...)})
	pipe.ready()
	return p, object, pipe
}

// TestNowhere points to where nothing can be watched, and back.
func TestNowhere(t *testing.T) {
	hwtest.Require(t)
	for _, test := range []struct {
		name    string
		pointer func(object uint64) uint64
		blind   bool // something can be written there all the same
	}{
		{"null", func(uint64) uint64 { return 0 }, false},
		{"misaligned", func(object uint64) uint64 { return object + 2 }, true},
		{"in the kernel's half", func(uint64) uint64 { return 0xffff888000001000 }, false},
		{"not canonical", func(uint64) uint64 { return 0x0123456789abcde0 }, false},
		{"the last user page and beyond", func(uint64) uint64 { return 0x7fffffffeff0 }, false},
	} {
		for _, values := range []string{"bpf", "off"} {
			t.Run(test.name+", values "+values, func(t *testing.T) {
				p, object, pipe := followed(t, 2, "--values", values)
				m := moves{leaf: 1}
				write := func() {
					at := p.do(0, "store %#x 4 %d 5", object+field, len(m.writings)*10)
					m.writings = append(m.writings, writing{object + field, counting(uint64(len(m.writings)*10), 5), at})
				}
				write()
				var away []did
				for range 3 {
					moved := p.point(1, p.anchor, test.pointer(object))
					away = append(away, moved)
					pipe.unbound(1, moved.from)
					p.do(0, "store %#x 4 77 3", object+field) // nobody's: the pointer does not lead there
					m.writings = append(m.writings, writing{})
					moved = p.point(1, p.anchor, object)
					m.moved = append(m.moved, moved)
					pipe.bound(1, object+field, moved.from)
					write()
				}
				result := pipe.stop()
				result.counted()
				m.checkBindings(result)
				if result.Complete || len(result.gapsBut("blind")) > 0 || result.Chains[0].Rebinds != 3 {
					t.Errorf("complete %v, %d rebinds, gaps %+v", result.Complete, result.Chains[0].Rebinds, result.Gaps)
				}
				gaps := result.blind(1)
				if len(gaps) != 3 {
					t.Fatalf("gaps %+v", gaps)
				}
				for i, g := range gaps {
					since := m.moved[i]
					if test.blind {
						since = away[i]
					}
					if *g.From < since.from || *g.From > since.to || *g.To < m.moved[i].from {
						t.Errorf("blind from %d to %d, after a store between %d and %d", *g.From, *g.To, since.from, since.to)
					}
				}
			})
		}
	}
}

// TestUnmapped points into a page that is not there, which comes later, and has the leaf's page go.
func TestUnmapped(t *testing.T) {
	hwtest.Require(t)
	p, object, pipe := followed(t, 2)
	page := p.do(0, "map").result
	p.do(0, "unmap %#x", page)
	m := moves{leaf: 1}
	write := func(at uint64) {
		first := uint64(len(m.writings) * 10)
		m.writings = append(m.writings, writing{at + field, counting(first, 5), p.do(0, "store %#x 4 %d 5", at+field, first)})
	}
	move := func(to uint64) *wire.Bound {
		moved := p.point(1, p.anchor, to)
		m.moved = append(m.moved, moved)
		return pipe.bound(1, to+field, moved.from)
	}
	write(object)
	if b := move(page); b.Value.OK {
		t.Errorf("an unmapped leaf holds %#x", b.Value.V)
	}
	p.do(0, "remap %#x", page)
	write(page)
	if b := move(object); !b.Value.OK {
		t.Error("a mapped leaf cannot be read")
	}
	write(object)
	if b := move(page); b.Value != wire.Some(14) {
		t.Errorf("the leaf holds %+v", b.Value)
	}
	p.do(0, "store %#x 4 30 2", page+field)
	p.do(0, "unmap %#x", page) // under the watchpoint
	p.do(0, "remap %#x", page)
	at := p.do(0, "store %#x 4 32 3", page+field)
	m.writings = append(m.writings, writing{page + field, counting(30, 5), did{from: 0, to: at.to}})
	move(object)
	write(object)
	result := pipe.stop()
	m.check(result)
	for i, b := range result.bindings(1) {
		if (b.Value == nil) != (i == 1) {
			t.Errorf("binding %d: value %v", i+1, b.Value)
		}
	}
}

// TestBothLevelsAtOnce has two threads, each on its CPU, replace a header and rewrite the pointer in the new one, and the one
// in the old one, within some microseconds, in both orders: what holds in the end is what is watched. Of the two re-bindings
// one may be under way when the leaf looks settled: each store to the leaf has its hit, or lies in an interval that was told
// as blind.
func TestBothLevelsAtOnce(t *testing.T) {
	hwtest.Require(t)
	const rounds = 40
	for _, values := range []string{"bpf", "off"} {
		t.Run("values "+values, func(t *testing.T) {
			p := startPuppet(t, 3)
			p.do(0, "pin 0")
			p.do(1, "pin 1")
			var headers, objects [2]uint64
			for i := range headers {
				headers[i], objects[i] = p.alloc(0x40), p.alloc(0x40)
			}
			p.point(0, p.anchor, headers[0])
			p.point(0, headers[0]+0x10, objects[0])
			p.point(0, headers[1]+0x10, objects[0])
			pipe := startPipeline(t, setup{args: []string{"--pid", p.pid(), "--watch", "hp=anchor->0x10->0x28:4", "--values", values}})
			pipe.ready()
			type leafStore struct {
				addr, value uint64
				at          did
			}
			var written []leafStore
			hits := 0
			header, object := 0, [2]int{}
			for round := range rounds {
				header = 1 - header
				into := header // whose pointer is written meanwhile
				if round%4 == 3 {
					into = 1 - header
				}
				object[into] = 1 - object[into]
				when := p.do(2, "alloc 16").to + 300_000
				p.do(0, "timed %#x %#x %d", p.anchor, headers[header], when)
				p.do(1, "timed %#x %#x %d", headers[into]+0x10, objects[object[into]], when+uint64(round%5)*5000-10_000)
				p.do(0, "halt")
				p.do(1, "halt")
				leaf := objects[object[header]] + field
				pipe.settled(1, headers[header]+0x10)
				pipe.settled(2, leaf)
				if round%8 == 0 { // what is forgotten would be missed
					pipe.stays(2, leaf)
				}
				eventually(t, "a store to the leaf is hit", func() bool {
					value := uint64(len(written) + 1)
					written = append(written, leafStore{leaf, value, p.do(2, "store %#x 4 %#x 1", leaf, value)})
					return pipe.hitsWithin(2, hits+1, 2*time.Second)
				})
				hits = pipe.hitCount(2)
			}
			result := pipe.stop()
			result.counted()
			samples := result.samples(2)
			for i, w := range written {
				if len(samples) > 0 && samples[0].Time <= w.at.to {
					if s := samples[0]; s.Time < w.at.from || s.Addr != w.addr || s.Value.OK && s.Value.V != w.value {
						t.Errorf("store %d: %+v, want %+v", i, s, w)
					}
					samples = samples[1:]
				} else if !slices.ContainsFunc(result.blind(2), func(g gapJSON) bool { return *g.From <= w.at.to && *g.To >= w.at.from }) {
					t.Errorf("store %d has no hit and was not told as blind: %+v", i, w)
				}
			}
			if len(samples) > 0 {
				t.Errorf("%d hits more than stores", len(samples))
			}
			if result.Complete || len(result.blind(2)) < rounds*3/4 || len(result.gapsBut("blind")) > 0 {
				t.Errorf("complete %v, %d gaps, %+v", result.Complete, len(result.Gaps), result.gapsBut("blind"))
			}
		})
	}
}

// TestHotLeaf adds to the leaf flat out while the pointer moves. All that is missing was added between a store to the pointer
// and the bound, or was counted as lost, as on a machine that gives xw-open no time.
func TestHotLeaf(t *testing.T) {
	hwtest.Require(t)
	const lives, period = 40, 10 * time.Millisecond
	for _, scope := range []string{"cpu", "inherit", "thread"} {
		t.Run(scope, func(t *testing.T) {
			p, object, pipe := followed(t, 3, "--scope", scope)
			objects := []uint64{object}
			p.do(1, "chase %#x %#x", p.anchor, field)
			for range lives {
				time.Sleep(period)
				object = p.alloc(0x80)
				moved := p.point(2, p.anchor, object)
				objects = append(objects, object)
				pipe.bound(1, object+field, moved.from)
			}
			time.Sleep(period)
			added := p.do(1, "halt").result
			result := pipe.stop()

			bindings := result.bindings(1)
			if len(bindings) != len(objects) || result.Complete || result.Chains[0].Rebinds != lives {
				t.Fatalf("%d bindings, complete %v, %d rebinds", len(bindings), result.Complete, result.Chains[0].Rebinds)
			}
			lost := uint64(0)
			for _, c := range all[*wire.Counts](result) {
				n := uint64(len(result.samples(c.Watch)))
				lost += c.Lost
				if n+c.Lost+c.AfterStop != c.Counted {
					t.Errorf("watch %d: %d samples, %+v", c.Watch, n, c)
				}
			}
			total := uint64(0)
			for i, b := range bindings {
				n := p.do(0, "load %#x 4 1", objects[i]+field).result
				total += n
				hits := samplesOf(result, uint64(i+1))
				if b.addr() != objects[i]+field || b.Hits != uint64(len(hits)) {
					t.Errorf("binding %d: %#x with %d hits, want %#x with %d", i+1, b.addr(), b.Hits, objects[i]+field, len(hits))
				}
				if lost > 0 || len(hits) == 0 || !hits[0].Value.OK {
					continue
				}
				if missed := hits[0].Value.V - 1; uint64(len(hits)) != n-missed || i == 0 && missed > 0 {
					t.Errorf("binding %d: %d hits, the first of the %d that are missing left %#x, the last %#x", i+1, len(hits), missed, hits[0].Value.V, n)
				}
			}
			if total != added {
				t.Errorf("the objects hold %d, %d were added", total, added)
			}
			t.Logf("%d hits lost", lost)
		})
	}
}

// samplesOf are the leaf's hits of one generation.
func samplesOf(s *result, generation uint64) (list []*wire.Sample) {
	for _, hit := range s.samples(1) {
		if hit.Generation == generation {
			list = append(list, hit)
		}
	}
	return list
}

// TestHotPointer rewrites the pointer flat out for a while. Nothing hangs, the leaf is blind most of that time, which is
// told, and afterwards it is where the pointer leads.
func TestHotPointer(t *testing.T) {
	hwtest.Require(t)
	for _, values := range []string{"bpf", "off"} {
		t.Run("values "+values, func(t *testing.T) {
			p, object, pipe := followed(t, 3, "--values", values)
			other := p.alloc(0x80)
			begun := p.do(1, "flip %#x %#x %#x", p.anchor, other, object)
			time.Sleep(time.Second)
			flips := p.do(1, "halt")
			last := p.alloc(0x80) // where the leaf has never been: the hit of this store may be lost
			p.point(0, p.anchor, last)
			pipe.stays(1, last+field)
			at := p.do(2, "store %#x 4 1 5", last+field)
			pipe.hits(1, 5)
			result := pipe.stop()

			counts := all[*wire.Counts](result)
			if c := counts[0]; c.Counted != flips.result+1 || uint64(len(result.samples(0)))+c.Lost != c.Counted {
				t.Errorf("%d stores to the pointer, %d samples, %+v", flips.result+1, len(result.samples(0)), c)
			}
			hits := result.samples(1)
			if len(hits) != 5 || hits[0].Time < at.from || hits[0].Addr != last+field {
				t.Errorf("%d hits of the leaf", len(hits))
			}
			chain := result.Chains[0]
			if blind := time.Duration(chain.Blind); result.Complete || blind <= 0 || chain.Blind > at.to-begun.from || chain.Rebinds == 0 {
				t.Errorf("complete %v, %d rebinds, blind for %v of %v", result.Complete, chain.Rebinds, blind, time.Duration(flips.to-begun.from))
			}
			t.Logf("%d stores, %d rebinds, blind for %v of %v, the longest %v, %d lost", flips.result, chain.Rebinds, time.Duration(chain.Blind),
				time.Duration(flips.to-begun.from), time.Duration(chain.Longest), counts[0].Lost)
			checkBlindStores(t, result)
		})
	}
}

// checkBlindStores: each store of a pointer to where the leaf was not lies in a blind gap.
func checkBlindStores(t *testing.T, s *result) {
	t.Helper()
	gaps := s.blind(1)
	if slices.ContainsFunc(gaps, func(g gapJSON) bool { return g.From == nil }) {
		t.Log("there are more gaps than are listed")
		return
	}
	armed := uint64(0)
	for _, e := range s.events {
		switch r := e.(type) {
		case *wire.Bound:
			if r.Watch == 1 {
				armed = r.Addr.V
			}
		case *wire.Sample:
			if r.Watch != 0 || !r.Value.OK || r.Value.V+field == armed {
				continue
			}
			i, exact := slices.BinarySearchFunc(gaps, r.Time, func(g gapJSON, at uint64) int {
				return cmp.Compare(*g.From, at)
			})
			if !exact && (i == 0 || *gaps[i-1].To < r.Time) {
				t.Fatalf("the store at %d of %#x is in no blind gap; the leaf was at %#x", r.Time, r.Value.V, armed)
			}
		}
	}
}

// TestUnfollowed: without xw-rebind nobody moves the leaf, and hits on the pointer tell when it was not where it led.
func TestUnfollowed(t *testing.T) {
	hwtest.Require(t)
	p := startPuppet(t, 2)
	object, other := p.list()[0], p.alloc(0x80)
	pipe := startPipeline(t, setup{noControl: true, args: []string{"--pid", p.pid(), "--watch", "hp=anchor->0x28:4"}})
	pipe.ready()
	p.do(0, "store %#x 4 1 3", object+field)
	var away, back []did
	for range 2 {
		away = append(away, p.point(1, p.anchor, other))
		p.do(0, "store %#x 4 1 7", other+field)
		back = append(back, p.point(1, p.anchor, object))
		p.do(0, "store %#x 4 1 2", object+field)
	}
	null := p.point(1, p.anchor, 0)
	away = append(away, p.point(1, p.anchor, other))
	result := pipe.stop()
	result.counted()
	if n := len(result.samples(1)); n != 7 {
		t.Errorf("%d hits of the leaf", n)
	}
	gaps := result.blind(1)
	if result.Complete || len(gaps) != 3 || len(result.gapsBut("blind")) > 0 || result.Chains[0].Rebinds != 0 {
		t.Fatalf("complete %v, gaps %+v", result.Complete, result.Gaps)
	}
	for i, g := range gaps {
		if *g.From < away[i].from || *g.From > away[i].to || g.Detail != "the pointer changed and the watch was not moved" {
			t.Errorf("gap %d: %+v, away at %+v", i, g, away[i])
		}
		if i < 2 && (*g.To < back[i].from || *g.To > back[i].to) || i == 2 && *g.To < null.to {
			t.Errorf("gap %d: %+v, back at %+v", i, g, back)
		}
	}
	if !slices.ContainsFunc(result.Notes, func(n string) bool { return strings.Contains(n, "without --control and xw-rebind") }) {
		t.Errorf("notes %q", result.Notes)
	}
}

// TestMeanwhile: what the leaf's bytes at both ends of a blind interval say.
func TestMeanwhile(t *testing.T) {
	hwtest.Require(t)
	p, object, pipe := followed(t, 2)
	quiet, busy := p.alloc(0x80), p.alloc(0x80)
	p.do(0, "store %#x 4 7 1", quiet+field)
	p.do(0, "store %#x 4 7 1", busy+field)
	moved := p.point(1, p.anchor, quiet)
	pipe.bound(1, quiet+field, moved.from)
	// The pointer and the leaf before anybody can have moved the watch. The low half of the pointer-sized store is it.
	pipe.rebind.paused(func() { moved = p.do(1, "both %#x %#x %#x 9", p.anchor, busy, busy+field) })
	bound := pipe.bound(1, busy+field, moved.from)
	moved = p.point(1, p.anchor, object)
	pipe.bound(1, object+field, moved.from)
	result := pipe.stop()
	gaps := result.blind(1)
	if len(gaps) != 3 {
		t.Fatalf("gaps %+v", gaps)
	}
	want := []string{"no net change while blind", "0x7 stood there when the pointer was written, and 0x9 when the watch was armed", "no net change while blind"}
	if hits := result.samples(1); len(hits) > 0 {
		t.Errorf("the store came after the watch was there (%d after the store to the pointer): %+v", bound.Time-moved.from, hits)
	}
	for i, g := range gaps {
		if g.Detail != want[i] {
			t.Errorf("gap %d: %q, want %q", i, g.Detail, want[i])
		}
	}
	for _, format := range []string{"text", "html", "json"} {
		out := string(result.render(format))
		if !strings.Contains(out, "no net change while blind") || strings.Contains(out, "nothing was written") {
			t.Errorf("%s does not say it, or too much", format)
		}
	}
}
