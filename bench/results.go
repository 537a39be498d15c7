package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// results are all figures.
type results struct {
	cost   []costRow
	replay []replayRow
	attach []attachRow
	births []birthRow
	blind  []blindRow
	memory []memoryRow
}

// median of what was measured; 0 for nothing.
func median(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(x))
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}

// page is the text of results.md.
func (r *results) page(c config, machine []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# What xw costs, beside the tools one would use in its place\n\n"+
		"Measured in one run by `make bench`; each figure is the median of %d rounds, in which the tools take turns.\n\n", c.rounds)
	for _, line := range machine {
		fmt.Fprintf(&b, "- %s\n", line)
	}
	fmt.Fprintf(&b, "\n## A hit\n\nA thread stores %d times flat out (%d for gdb). What a store takes it then, which takes about a nanosecond "+
		"when nobody watches; and how many stores the tool did not see, in the worst round. perf record and bpftrace get rings of 16 MiB "+
		"a CPU, xw what it takes by default.\n\n", c.hits, slowHits)
	table(&b, []string{"tool", "ns a hit", "x the floor", "missed"}, r.costLines())
	b.WriteString("\n## Reading a capture\n\nOf the same stores, with registers, and with values in that of xw.\n\n")
	table(&b, []string{"command", "samples/s", "x perf script"}, r.replayLines())
	b.WriteString("\n## Attaching\n\nSeconds from the start of the tool until it watches, by the number of the target's threads.\n\n")
	table(&b, []string{"tool", "8", "300", "2000"}, r.attachLines())
	fmt.Fprintf(&b, "\n## Short-lived threads\n\n%d threads are born one after the other; each stores once. Stores that the tool did not see, in the worst round.\n\n", births)
	table(&b, []string{"tool", "missed"}, r.birthLines())
	b.WriteString("\n## Following a pointer\n\nThe time in which what is below a pointer is not watched, in microseconds, each time the pointer is rewritten: 200 times in each round.\n\n")
	table(&b, []string{"how", "p50", "p99"}, r.blindLines())
	b.WriteString("\n## Memory\n\nThe most that each stage of `xw-open | xw-decode | xw-report --format json` took, in MiB, flat out.\n\n")
	table(&b, []string{"hits", "xw-open", "xw-decode", "xw-report", "missed"}, r.memoryLines())
	b.WriteString("\n## Bars\n\n")
	var lines [][]string
	for _, bar := range r.bars() {
		lines = append(lines, []string{bar.what, bar.figure, bar.verdict()})
	}
	table(&b, []string{"bar", "measured", ""}, lines)
	return b.String()
}

// table writes a table of Markdown.
func table(b *strings.Builder, head []string, rows [][]string) {
	fmt.Fprintf(b, "| %s |\n|---|%s\n", strings.Join(head, " | "), strings.Repeat("---:|", len(head)-1))
	for _, row := range rows {
		fmt.Fprintf(b, "| %s |\n", strings.Join(row, " | "))
	}
}

const notInstalled = "not installed"

func (r *results) costLines() (lines [][]string) {
	for _, row := range r.cost {
		if len(row.ns) == 0 {
			lines = append(lines, []string{row.tool.name, notInstalled, "", ""})
			continue
		}
		lines = append(lines, []string{row.tool.name, fmt.Sprintf("%.0f", median(row.ns)), ratio(median(row.ns), r.floor()),
			fmt.Sprint(slices.Max(row.missed))})
	}
	return lines
}

// ratio is "unknown" where there is nothing to compare with.
func ratio(figure, to float64) string {
	if to == 0 {
		return "unknown"
	}
	return fmt.Sprintf("%.2f", figure/to)
}

// floor is what a hit costs that is only counted, in ns; 0 if unknown.
func (r *results) floor() float64 {
	for _, row := range r.cost {
		if row.tool.floor {
			return median(row.ns)
		}
	}
	return 0
}

// speed is the samples per second of the row with a key; 0 if unknown.
func (r *results) speed(key string) float64 {
	for _, row := range r.replay {
		if row.key == key {
			return median(row.perSecond)
		}
	}
	return 0
}

func (r *results) replayLines() (lines [][]string) {
	for _, row := range r.replay {
		if len(row.perSecond) == 0 {
			lines = append(lines, []string{row.name, notInstalled, ""})
			continue
		}
		lines = append(lines, []string{row.name, fmt.Sprintf("%.0f", median(row.perSecond)), ratio(median(row.perSecond), r.speed("script"))})
	}
	return lines
}

func (r *results) attachLines() (lines [][]string) {
	for _, row := range r.attach {
		line := []string{row.tool.name}
		for _, threads := range attachThreads {
			if len(row.seconds[threads]) == 0 {
				line = append(line, notInstalled)
				continue
			}
			line = append(line, fmt.Sprintf("%.2f", median(row.seconds[threads])))
		}
		lines = append(lines, line)
	}
	return lines
}

func (r *results) birthLines() (lines [][]string) {
	for _, row := range r.births {
		missed := notInstalled
		if len(row.missed) > 0 {
			missed = fmt.Sprint(slices.Max(row.missed))
		}
		lines = append(lines, []string{row.tool.name, missed})
	}
	return lines
}

func (r *results) blindLines() (lines [][]string) {
	for _, row := range r.blind {
		lines = append(lines, []string{row.how, fmt.Sprintf("%.0f", median(row.p50)), fmt.Sprintf("%.0f", median(row.p99))})
	}
	return lines
}

func (r *results) memoryLines() (lines [][]string) {
	mib := func(kib int64) string { return fmt.Sprintf("%.1f", float64(kib)/1024) }
	for _, row := range r.memory {
		lines = append(lines, []string{fmt.Sprint(row.hits), mib(row.open), mib(row.decode), mib(row.json), fmt.Sprint(row.missed)})
	}
	return lines
}

// missed is an error that names the bars that were missed.
func (r *results) missed() error {
	var errs []error
	for _, bar := range r.bars() {
		if bar.known && !bar.met {
			errs = append(errs, fmt.Errorf("bar missed: %s: %s", bar.what, bar.figure))
		}
	}
	return errors.Join(errs...)
}
