package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// memoryRow is the most memory that each stage of a live pipe took.
type memoryRow struct {
	hits               int
	open, decode, json int64 // KiB
	missed             int
}

// measureMemory watches a target flat out, through the whole pipe.
func measureMemory(ctx context.Context, c config, program string, r *results) error {
	for _, hits := range []int{c.long / 10, c.long} {
		row, err := measurePipe(ctx, program, hits)
		if err != nil {
			return err
		}
		r.memory = append(r.memory, row)
	}
	return nil
}

func measurePipe(ctx context.Context, program string, hits int) (row memoryRow, err error) {
	t, err := startTarget(ctx, program)
	if err != nil {
		return row, err
	}
	defer t.end()
	decode, report := exec.CommandContext(ctx, "bin/xw-decode"), exec.CommandContext(ctx, "bin/xw-report", "--format", "json")
	var page bytes.Buffer
	report.Stdout, report.Stderr, decode.Stderr = &page, os.Stderr, os.Stderr
	if report.Stdin, err = decode.StdoutPipe(); err != nil {
		return row, err
	}
	raw, into, err := os.Pipe()
	if err != nil {
		return row, err
	}
	decode.Stdin = raw
	open, err := startChild(ctx, into, nil, "bin/xw-open", "--pid", strconv.Itoa(t.cmd.Process.Pid), "--watch", t.addr)
	into.Close()
	if err != nil {
		raw.Close()
		return row, err
	}
	err = decode.Start()
	raw.Close()
	if err != nil {
		return row, err
	}
	if err := report.Start(); err != nil {
		return row, err
	}
	report.Stdin.(io.Closer).Close()
	if err := open.says("ready"); err != nil {
		return row, err
	}
	if _, err := t.do("spin", hits); err != nil {
		return row, err
	}
	row.hits = hits
	for pid, most := range map[int]*int64{open.cmd.Process.Pid: &row.open, decode.Process.Pid: &row.decode, report.Process.Pid: &row.json} {
		if *most, err = highWater(pid); err != nil {
			return row, err
		}
	}
	if err := open.end(syscall.SIGTERM); err != nil {
		return row, err
	}
	// The report first: Wait of the other one closes the pipe between them.
	if err := report.Wait(); err != nil {
		return row, fmt.Errorf("xw-report: %w", err)
	}
	if err := decode.Wait(); err != nil {
		return row, fmt.Errorf("xw-decode: %w", err)
	}
	var got struct {
		Watches []struct{ Hits int }
	}
	if err := json.Unmarshal(page.Bytes(), &got); err != nil || len(got.Watches) != 1 {
		return row, fmt.Errorf("report: %w, %d watches", err, len(got.Watches))
	}
	row.missed = hits - got.Watches[0].Hits
	return row, nil
}

// highWater is the most memory that a process has had so far, in KiB (VmHWM, proc_pid_status(5)). What wait4(2) tells of one
// that has ended is no less than what this program had when it started it.
func highWater(pid int) (kib int64, err error) {
	text := valueIn(fmt.Sprintf("/proc/%d/status", pid), "VmHWM")
	if _, err := fmt.Sscanf(text, "%d kB", &kib); err != nil {
		return 0, fmt.Errorf("read the memory of process %d: %q: %w", pid, text, err)
	}
	return kib, nil
}
