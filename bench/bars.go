package main

import (
	"fmt"
	"slices"
	"strings"
)

// bar is a demand on a figure.
type bar struct {
	what, figure string
	known, met   bool
}

func (b bar) verdict() string {
	switch {
	case !b.known:
		return "unknown"
	case b.met:
		return "met"
	}
	return "MISSED"
}

// atMost and atLeast compare a figure, which is unknown if it is 0.
func atMost(what string, figure, most float64) bar {
	return bar{what, fmt.Sprintf("%.2f", figure), figure > 0, figure <= most}
}

func atLeast(what string, figure, least float64) bar {
	return bar{what, fmt.Sprintf("%.2f", figure), figure > 0, figure >= least}
}

// bars are what every release has to keep to.
func (r *results) bars() (bars []bar) {
	floor, record := r.floor(), r.costOf("`perf record -c 1 --intr-regs`")
	for _, name := range []string{"xw", "xw, scope inherit"} {
		cost := r.costOf(name)
		if floor > 0 {
			bars = append(bars, atMost(name+": a hit costs at most 1.2 x the floor", cost/floor, 1.2))
		}
		if record > 0 {
			bars = append(bars, atMost(name+": a hit costs at most what it costs with perf record", cost/record, 1))
		}
	}
	for _, row := range r.cost {
		if strings.HasPrefix(row.tool.name, "xw") && len(row.missed) > 0 {
			worst := slices.Max(row.missed)
			bars = append(bars, bar{fmt.Sprintf("%s: none of %d hits missed, in any round", row.tool.name, row.stores), fmt.Sprint(worst), true, worst == 0})
		}
	}
	if script := r.speed("script"); script > 0 {
		bars = append(bars,
			atLeast("xw-decode reads at least 10 x the samples of perf script", r.speed("decode")/script, 10),
			atLeast("the whole replay to json reads at least 6 x the samples of perf script", r.speed("pipe")/script, 6))
	}
	for _, row := range r.attach {
		if row.tool.name == "xw" || strings.HasPrefix(row.tool.name, "xw, scope") {
			bars = append(bars, atMost(row.tool.name+": 2000 threads are watched within 2 s", median(row.seconds[2000]), 2))
		}
	}
	for _, row := range r.births {
		if row.tool.name == "xw" || row.tool.name == "xw, scope inherit" {
			worst := slices.Max(row.missed)
			bars = append(bars, bar{row.tool.name + ": no store of a short-lived thread missed", fmt.Sprint(worst), true, worst == 0})
		}
	}
	for _, row := range r.blind {
		if strings.Contains(row.how, "values bpf") {
			bars = append(bars,
				atMost(row.how+": blind for at most 250 us, p50", median(row.p50), 250),
				atMost(row.how+": blind for at most 2000 us, p99", median(row.p99), 2000))
		}
	}
	for _, row := range r.memory {
		bars = append(bars,
			atMost(fmt.Sprintf("xw-open: at most 64 MiB at %d hits", row.hits), float64(row.open)/1024, 64),
			atMost(fmt.Sprintf("xw-report: at most 200 MiB at %d hits", row.hits), float64(row.json)/1024, 200))
	}
	return bars
}

// costOf is what a hit costs with a tool, in ns; 0 if unknown.
func (r *results) costOf(name string) float64 {
	for _, row := range r.cost {
		if row.tool.name == name {
			return median(row.ns)
		}
	}
	return 0
}
