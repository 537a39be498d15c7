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

// TestFlatOut has one thread store 300 000 times without a pause: all are hits, each with its value and registers.
func TestFlatOut(t *testing.T) {
	const stores = 300_000
	test := func(t *testing.T, m mode) {
		a := startActor(t)
		s := attach(t, a.PID, append(m.args, "--watch", "counter")...)
		a.do("store", stores)
		seen := s.stop()
		seen.wantHits(0, stores)
		seen.wantComplete()
		if m.bpf() {
			seen.wantSequence(0, 1)
		}
		seen.samples(func(sample *wire.Sample) {
			if len(sample.Regs) != 16*8 {
				t.Fatalf("a sample with %d bytes of registers", len(sample.Regs))
			}
		})
	}
	eachMode(t, test)
	t.Run("thread", func(t *testing.T) { test(t, mode{"thread", []string{"--scope", "thread", "--values", "off"}}) })
}

// TestContended has four threads store at once, on all CPUs.
func TestContended(t *testing.T) {
	eachMode(t, func(t *testing.T, m mode) {
		a := startActor(t)
		s := attach(t, a.PID, append(m.args, "--watch", "counter", "--watch", "upper=counter+4:4")...)
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
