package main

import (
	"context"
	"fmt"
	"os/exec"
)

// tool is one way to watch a variable.
type tool struct {
	name    string
	needs   string // the program that must be installed
	slow    bool   // it gets slowHits stores, not all
	floor   bool   // it only counts: the least that a watchpoint costs
	samples bool   // it keeps a record of each hit
	variant bool   // of a tool that is already there; only its cost differs
	start   func(ctx context.Context, c config, t *target) (watcher, error)
}

// slowHits are the stores for a tool that would take minutes for more.
const slowHits = 2000

// watcher is a tool that is watching.
type watcher interface {
	// stop ends the tool and tells how many hits it saw. It may end the target.
	stop(ctx context.Context) (hits int, err error)
}

// tools are all ways that are compared.
func tools() []tool {
	return []tool{
		{name: "`perf stat` (only counts)", needs: "perf", floor: true, start: startPerfStat},
		{name: "xw", needs: "bin/xw-open", samples: true, start: xw()},
		{name: "xw, values off", needs: "bin/xw-open", samples: true, variant: true, start: xw("--values", "off")},
		{name: "xw, values and registers off", needs: "bin/xw-open", samples: true, variant: true, start: xw("--values", "off", "--no-regs")},
		{name: "xw, scope inherit", needs: "bin/xw-open", samples: true, start: xw("--scope", "inherit")},
		{name: "xw, scope thread", needs: "bin/xw-open", samples: true, start: xw("--scope", "thread")},
		{name: "`perf record -c 1 --intr-regs`", needs: "perf", samples: true, variant: true, start: perfRecord("--intr-regs")},
		{name: "`perf record -c 1`", needs: "perf", samples: true, start: perfRecord()},
		{name: "bpftrace, printf", needs: "bpftrace", samples: true, start: startBPFTrace},
		{name: "gdb, watch", needs: "gdb", slow: true, samples: true, start: startGDB},
	}
}

func (t tool) installed() bool {
	_, err := exec.LookPath(t.needs)
	return err == nil
}

// stores is how many stores a tool gets.
func (t tool) stores(c config) int {
	if t.slow {
		return min(slowHits, c.hits)
	}
	return c.hits
}

// watched has a tool watch a fresh target, calls f, and returns how many hits the tool saw.
func (t tool) watched(ctx context.Context, c config, program string, f func(*target) error) (hits int, err error) {
	target, err := startTarget(ctx, program)
	if err != nil {
		return 0, err
	}
	defer target.end()
	w, err := t.start(ctx, c, target)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", t.name, err)
	}
	ferr := f(target)
	if hits, err = w.stop(ctx); err != nil {
		return 0, fmt.Errorf("%s: %w", t.name, err)
	}
	return hits, ferr
}
