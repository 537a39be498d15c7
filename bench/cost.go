package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"
)

// costRow is what one tool costs its target.
type costRow struct {
	tool   tool
	stores int
	ns     []float64 // a store, of each round
	missed []int     // stores that were not seen, of each round
}

// measureCost has each tool in turn watch a target that stores flat out. The files that xw and perf record leave behind are
// what is read next.
func measureCost(ctx context.Context, c config, program string, r *results) error {
	for _, t := range tools() {
		r.cost = append(r.cost, costRow{tool: t, stores: t.stores(c)})
	}
	for range c.rounds {
		for i := range r.cost {
			row := &r.cost[i]
			if !row.tool.installed() {
				continue
			}
			var ns int64
			hits, err := row.tool.watched(ctx, c, program, func(t *target) (err error) {
				ns, err = t.do("spin", row.stores)
				return err
			})
			if err != nil {
				return err
			}
			row.ns = append(row.ns, float64(ns)/float64(row.stores))
			row.missed = append(row.missed, row.stores-hits)
		}
	}
	return nil
}

// attachRow is how long a tool takes until it watches targets of some numbers of threads.
type attachRow struct {
	tool    tool
	seconds map[int][]float64
}

// attachThreads are the sizes of the targets.
var attachThreads = [...]int{8, 300, 2000}

// measureAttach times each tool from its start until it watches all threads.
func measureAttach(ctx context.Context, c config, program string, r *results) error {
	for _, t := range tools() {
		if !t.samples || t.variant {
			continue
		}
		row := attachRow{tool: t, seconds: map[int][]float64{}}
		for _, threads := range attachThreads {
			for range c.rounds {
				if !t.installed() {
					break
				}
				seconds, err := attach(ctx, c, program, t, threads)
				if err != nil {
					return err
				}
				row.seconds[threads] = append(row.seconds[threads], seconds)
				if seconds > 10 {
					break // one such is told without a median
				}
			}
		}
		r.attach = append(r.attach, row)
	}
	return nil
}

func attach(ctx context.Context, c config, program string, tool tool, threads int) (float64, error) {
	t, err := startTarget(ctx, program)
	if err != nil {
		return 0, err
	}
	defer t.end()
	if _, err := t.do("threads", threads-1); err != nil {
		return 0, err
	}
	start := time.Now()
	w, err := tool.start(ctx, c, t)
	if err != nil {
		return 0, fmt.Errorf("%s, %d threads: %w", tool.name, threads, err)
	}
	took := time.Since(start).Seconds()
	_, err = w.stop(ctx)
	return took, err
}

// birthRow is how many of the stores of short-lived threads a tool sees.
type birthRow struct {
	tool   tool
	missed []int
}

// births is how many threads are born and store once.
const births = 2000

// measureBirths has each tool watch a target that creates threads.
func measureBirths(ctx context.Context, c config, program string, r *results) error {
	for _, t := range tools() {
		if !t.samples || t.variant {
			continue
		}
		row := birthRow{tool: t}
		for range c.rounds {
			if !t.installed() {
				break
			}
			hits, err := t.watched(ctx, c, program, func(t *target) error {
				_, err := t.do("births", births)
				return err
			})
			if err != nil {
				return err
			}
			row.missed = append(row.missed, births-hits)
		}
		r.births = append(r.births, row)
	}
	return nil
}

// captured names the files that the last round of measureCost left.
func captured(c config) (raw, perf string) {
	return filepath.Join(c.dir, "xw"), filepath.Join(c.dir, "perf--intr-regs")
}
