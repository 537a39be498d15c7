//go:build amd64

package e2e

import (
	"testing"

	"xw/pkg/hwtest"
	"xw/pkg/wire"
)

// mode is a way to watch a program.
type mode struct {
	name string
	args []string
}

// bpf says that the mode reads values in the kernel.
func (m mode) bpf() bool { return len(m.args) == 2 }

// modes are the ways to watch a whole program, those born later included.
func modes() []mode {
	return []mode{
		{"cpu", []string{"--scope", "cpu"}},
		{"cpu without values", []string{"--scope", "cpu", "--values", "off"}},
		{"inherit", []string{"--scope", "inherit"}},
		{"inherit without values", []string{"--scope", "inherit", "--values", "off"}},
	}
}

// eachMode runs a test in each mode, one after the other under one lock on the watchpoints.
func eachMode(t *testing.T, test func(t *testing.T, m mode)) {
	t.Helper()
	hwtest.Require(t)
	hwtest.RequireRoot(t)
	for _, m := range modes() {
		t.Run(m.name, func(t *testing.T) { test(t, m) })
	}
}

// TestFlatOut has one thread store 300 000 times without a pause. Each store is a hit with its value and registers, or is
// counted as lost, as on a machine that gives xw-open no time.
func TestFlatOut(t *testing.T) {
	const stores = 300_000
	eachScope(t, func(t *testing.T, m mode) {
		seen := storeFlatOut(t, m, stores)
		w := seen.Watches[0]
		t.Logf("%d hits lost", w.Lost)
		if w.Lost == 0 {
			seen.wantHits(0, stores)
			seen.wantComplete()
			return
		}
		if w.Hits+w.Lost != stores || w.Counted != stores || w.Missed != 0 || w.AfterStop != 0 || seen.Complete || seen.gapsOf("lost") == 0 {
			t.Errorf("%d hits, counted %d, lost %d, missed %d, after the stop %d; want %d; gaps %v", w.Hits, w.Counted, w.Lost, w.Missed, w.AfterStop, stores, seen.Gaps)
		}
	})
}

// TestRoomForAll stores flat out what the ring has room for, whenever xw-open gets its turn: nothing is lost.
func TestRoomForAll(t *testing.T) {
	const stores = 100_000
	eachScope(t, func(t *testing.T, m mode) {
		m.args = append(m.args, roomy)
		seen := storeFlatOut(t, m, stores)
		seen.wantHits(0, stores)
		seen.wantComplete()
		if m.bpf() {
			seen.wantSequence(0, 1)
		}
	})
}

// roomy is a ring for 190 000 hits on each CPU.
const roomy = "--ring-size=67108864"

// eachScope runs a test in every mode, and in scope thread.
func eachScope(t *testing.T, test func(*testing.T, mode)) {
	eachMode(t, test)
	t.Run("thread", func(t *testing.T) { test(t, mode{"thread", []string{"--scope", "thread", "--values", "off"}}) })
}

// storeFlatOut has one thread store without a pause. Each hit must have its registers, and a larger value than the one before.
func storeFlatOut(t *testing.T, m mode, stores int) *seen {
	a := startActor(t)
	s := attach(t, a.PID, append(m.args, "--watch", "counter")...)
	a.do("store", stores)
	seen := s.stop()
	last := uint64(0)
	seen.samples(func(sample *wire.Sample) {
		if len(sample.Regs) != 16*8 || m.bpf() && (!sample.Value.OK || sample.Value.V <= last) {
			t.Fatalf("after value %d a sample with value %v and %d bytes of registers", last, sample.Value, len(sample.Regs))
		}
		last = sample.Value.V
	})
	return seen
}

// TestContended has four threads store at once, on all CPUs.
func TestContended(t *testing.T) {
	eachMode(t, func(t *testing.T, m mode) {
		a := startActor(t)
		s := attach(t, a.PID, append(m.args, roomy, "--watch", "counter", "--watch", "upper=counter+4:4")...)
		a.do("add", 4, 10_000)
		seen := s.stop()
		for watch := range 2 {
			seen.wantHits(watch, 40_000)
			if n := len(seen.Watches[watch].Threads); n != 4 {
				t.Errorf("%d threads, want 4", n)
			}
		}
		seen.wantComplete()
	})
}
