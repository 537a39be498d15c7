package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// xwRun is xw-open, writing to a file.
type xwRun struct {
	*child
	file *os.File
}

// xw watches with xw-open and the given flags.
func xw(flags ...string) func(context.Context, config, *target) (watcher, error) {
	return func(ctx context.Context, c config, t *target) (watcher, error) {
		file, err := os.Create(filepath.Join(c.dir, "xw"+strings.Join(flags, "")))
		if err != nil {
			return nil, err
		}
		args := []string{"bin/xw-open", "--pid", strconv.Itoa(t.cmd.Process.Pid), "--watch", t.addr, "--max-samplers", "10000"}
		run, err := startChild(ctx, file, nil, append(args, flags...)...)
		if err != nil {
			file.Close()
			return nil, err
		}
		w := &xwRun{run, file}
		if err := w.says("ready"); err != nil {
			file.Close()
			return nil, err
		}
		return w, nil
	}
}

func (w *xwRun) stop(ctx context.Context) (int, error) {
	defer w.file.Close()
	if err := w.end(syscall.SIGTERM); err != nil {
		return 0, err
	}
	return countXW(ctx, w.file.Name())
}

// countXW counts the hits of a raw stream.
func countXW(ctx context.Context, file string) (int, error) {
	cmd := exec.CommandContext(ctx, "sh", "-c", `bin/xw-decode < "$0" | bin/xw-report --format json`, file)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("report on %s: %w\n%s", file, err, said.String())
	}
	var report struct {
		Watches []struct{ Hits int }
	}
	if err := json.Unmarshal(out, &report); err != nil {
		return 0, err
	}
	if len(report.Watches) != 1 {
		return 0, fmt.Errorf("report on %s: %d watches", file, len(report.Watches))
	}
	return report.Watches[0].Hits, nil
}
