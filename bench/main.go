// Command bench measures xw beside the tools one would use in its place, in one run on one machine, and writes the
// figures to results.md. "make bench" builds what it needs. It must run as root, or as one who may use all the tools.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// config says how much is measured.
type config struct {
	rounds int    // each figure is the median of so many
	hits   int    // stores flat out of a round
	long   int    // stores flat out of the long capture
	only   string // measure only the sections with this in their name
	out    string // where the results go
	dir    string // for what is written meanwhile
}

func main() {
	var c config
	flag.IntVar(&c.rounds, "rounds", 5, "each figure is the median of so many")
	flag.IntVar(&c.hits, "hits", 300_000, "stores flat out")
	flag.IntVar(&c.long, "long", 10_000_000, "stores of the long capture")
	flag.StringVar(&c.only, "only", "", "measure only the sections with this in their name")
	flag.StringVar(&c.out, "out", "bench/results.md", "where the results go")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, c)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run measures everything, writes the results, and fails if a bar was missed.
func run(ctx context.Context, c config) error {
	dir, err := os.MkdirTemp("", "xw-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c.dir = dir
	program, err := buildTarget(ctx, dir)
	if err != nil {
		return err
	}
	var r results
	sections := []struct {
		name    string
		measure func(context.Context, config, string, *results) error
	}{
		{"cost of a hit, hits missed", alone(measureCost)},
		{"reading what was captured", alone(measureReplay)},
		{"attaching", alone(measureAttach)},
		{"short-lived threads", alone(measureBirths)},
		{"following a pointer", measureBlind}, // by a test, which sees to it that it is alone
		{"memory", alone(measureMemory)},
	}
	for _, s := range sections {
		if !strings.Contains(s.name, c.only) {
			continue
		}
		start := time.Now()
		if err := s.measure(ctx, c, program, &r); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Fprintf(os.Stderr, "bench: %s: measured in %.0f s\n", s.name, time.Since(start).Seconds())
	}
	text := r.page(c, describeMachine(ctx))
	fmt.Print(text)
	if err := os.WriteFile(c.out, []byte(text), 0o644); err != nil {
		return err
	}
	return r.missed()
}

// alone has a section measured while no test uses watchpoints: those take this lock too.
func alone(measure func(context.Context, config, string, *results) error) func(context.Context, config, string, *results) error {
	return func(ctx context.Context, c config, program string, r *results) error {
		lock, err := os.OpenFile(filepath.Join(os.TempDir(), "xw-hwtest.lock"), os.O_RDONLY|os.O_CREATE, 0o644)
		if err != nil {
			return err
		}
		defer lock.Close()
		if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
			return fmt.Errorf("lock %s: %w", lock.Name(), err)
		}
		return measure(ctx, c, program, r)
	}
}
