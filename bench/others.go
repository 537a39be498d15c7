package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// hitLine is what bpftrace and gdb print for a hit.
const hitLine = "hit "

func countHits(said string) int { return strings.Count("\n"+said, "\n"+hitLine) }

// bpftraceRun is bpftrace, printing a line for each hit.
type bpftraceRun struct{ *child }

// startBPFTrace gives bpftrace 16 MiB for each CPU, as perf record. Its timer comes after the watchpoint in the script, so
// that both are there when the timer first speaks.
func startBPFTrace(ctx context.Context, _ config, t *target) (watcher, error) {
	script := fmt.Sprintf(`watchpoint:%s:8:w { printf("hit %%d %%lx\n", tid, reg("ip")); } interval:ms:20 { printf("armed\n"); }`, t.addr)
	run, err := startChild(ctx, nil, nil, "env", "BPFTRACE_PERF_RB_PAGES=4096", "bpftrace", "-p", strconv.Itoa(t.cmd.Process.Pid), "-e", script)
	if err != nil {
		return nil, err
	}
	return bpftraceRun{run}, run.says("armed")
}

func (b bpftraceRun) stop(context.Context) (int, error) {
	err := b.end(syscall.SIGINT)
	return countHits(b.text.String()), err
}

// gdbRun is gdb, going on by itself after each hit.
type gdbRun struct {
	*child
	target *target
}

func startGDB(ctx context.Context, c config, t *target) (watcher, error) {
	script := filepath.Join(c.dir, "gdb")
	text := fmt.Sprintf("set pagination off\nset confirm off\nwatch *(long *)%s\ncommands\nsilent\nprintf \"hit %%ld\\n\", *(long *)%[1]s\n"+
		"continue\nend\nprintf \"armed\\n\"\ncontinue\n", t.addr)
	if err := os.WriteFile(script, []byte(text), 0o644); err != nil {
		return nil, err
	}
	run, err := startChild(ctx, nil, nil, "gdb", "-nx", "-batch", "-p", strconv.Itoa(t.cmd.Process.Pid), "-x", script)
	if err != nil {
		return nil, err
	}
	return gdbRun{run, t}, run.says("armed")
}

// stop ends the target: gdb, which waits for it, then ends too.
func (g gdbRun) stop(context.Context) (int, error) {
	g.target.end()
	err := g.end(syscall.Signal(0))
	return countHits(g.text.String()), err
}
