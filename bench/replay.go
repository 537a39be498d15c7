package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"
)

// replayRow is one way to read a capture.
type replayRow struct {
	name, key string // key names it among the bars
	script    string // for sh, with the raw stream as $1, the events as $2, the file of perf as $3
	needs     string
	perSecond []float64
}

// measureReplay times how fast captures of the same number of hits are read. Everything is written to /dev/null.
func measureReplay(ctx context.Context, c config, _ string, r *results) error {
	raw, perf := captured(c)
	events, fixture := filepath.Join(c.dir, "events"), filepath.Join(c.dir, "no-memory")
	if out, err := exec.CommandContext(ctx, "sh", "-c", `bin/xw-decode < "$0" > "$1" && : > "$2"`, raw, events, fixture).CombinedOutput(); err != nil {
		return fmt.Errorf("xw-decode: %w\n%s", err, out)
	}
	r.replay = []replayRow{
		{name: "`perf script -F tid,time,ip,iregs`", key: "script", script: `perf script -F tid,time,ip,iregs -i "$3"`, needs: "perf"},
		{name: "`perf report --stdio`", script: `perf report --stdio -i "$3"`, needs: "perf"},
		{name: "xw-decode", key: "decode", script: `bin/xw-decode < "$1"`, needs: "bin/xw-decode"},
		{name: "xw-rebind", script: `bin/xw-rebind --control "$2.ctl" --mem "$4" < "$2"`, needs: "bin/xw-rebind"},
		{name: "xw-report, text", script: `bin/xw-report < "$2"`, needs: "bin/xw-report"},
		{name: "xw-report, json", script: `bin/xw-report --format json < "$2"`, needs: "bin/xw-report"},
		{name: "xw-report, jsonl", script: `bin/xw-report --format jsonl < "$2"`, needs: "bin/xw-report"},
		{name: "xw-decode, xw-report to json", key: "pipe", script: `bin/xw-decode < "$1" | bin/xw-report --format json`, needs: "bin/xw-report"},
	}
	for range c.rounds {
		for i := range r.replay {
			row := &r.replay[i]
			if _, err := exec.LookPath(row.needs); err != nil {
				continue
			}
			cmd := exec.CommandContext(ctx, "sh", "-c", row.script, "sh", raw, events, perf, fixture)
			start := time.Now()
			if err := cmd.Run(); err != nil {
				return fmt.Errorf("%s: %w", row.name, err)
			}
			row.perSecond = append(row.perSecond, float64(c.hits)/time.Since(start).Seconds())
		}
	}
	return nil
}
