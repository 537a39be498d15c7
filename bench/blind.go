package main

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// blindRow is how long the leaf of a chain is not watched when the pointer to it is rewritten, in microseconds, over 200
// times.
type blindRow struct {
	how      string
	p50, p99 []float64
}

// measureBlind runs the benchmark of xw-rebind that moves a pointer 200 times.
func measureBlind(ctx context.Context, c config, _ string, r *results) error {
	out, err := exec.CommandContext(ctx, "go", "test", "./cmd/xw-rebind", "-run", "^$", "-bench", "Blind", "-benchtime", "1x",
		"-count", strconv.Itoa(c.rounds)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("go test -bench Blind: %w\n%s", err, out)
	}
	r.blind, err = parseBlind(string(out))
	return err
}

var blindLine = regexp.MustCompile(`(?m)^BenchmarkBlind/(\S+?)(?:-\d+)?\s+\d+\s.*?([\d.]+) us-p50\s+([\d.]+) us-p99`)

// parseBlind reads the lines of go test, one for each way and round.
func parseBlind(out string) (rows []blindRow, err error) {
	at := map[string]int{}
	for _, m := range blindLine.FindAllStringSubmatch(out, -1) {
		how := strings.NewReplacer("/", ", ", "=", " ").Replace(m[1])
		i, known := at[how]
		if !known {
			i = len(rows)
			at[how] = i
			rows = append(rows, blindRow{how: how})
		}
		p50, err50 := strconv.ParseFloat(m[2], 64)
		p99, err99 := strconv.ParseFloat(m[3], 64)
		if err50 != nil || err99 != nil {
			return nil, fmt.Errorf("go test -bench Blind: no figures in %q", m[0])
		}
		rows[i].p50, rows[i].p99 = append(rows[i].p50, p50), append(rows[i].p99, p99)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("go test -bench Blind measured nothing:\n%s", out)
	}
	return rows, nil
}
