package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

// perfPages is the ring that perf record gets for each CPU, in pages: 16 MiB, more than what xw takes.
const perfPages = "4096"

// perfRun is perf, which begins to watch when it is told. It fails when the pipes for that go.
type perfRun struct {
	*child
	tell, hear *os.File
	count      func(ctx context.Context, said string) (int, error)
}

// startPerf starts perf with its events off, has it switch them on, and waits until it says that it has.
func startPerf(ctx context.Context, args ...string) (*perfRun, error) {
	commands, tell, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer commands.Close()
	hear, answers, err := os.Pipe()
	if err != nil {
		tell.Close()
		return nil, err
	}
	p := &perfRun{tell: tell, hear: hear}
	p.child, err = startChild(ctx, nil, []*os.File{commands, answers}, append(args, "-D", "-1", "--control", "fd:3,4")...)
	answers.Close()
	if err == nil {
		err = p.enable()
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *perfRun) enable() error {
	if _, err := io.WriteString(p.tell, "enable\n"); err != nil {
		return err
	}
	var ack [4]byte
	if _, err := io.ReadFull(p.hear, ack[:]); err != nil {
		return fmt.Errorf("perf did not begin: %w\n%s", err, p.text)
	}
	return nil
}

func (p *perfRun) close() {
	p.tell.Close()
	p.hear.Close()
}

func breakpoint(t *target) string { return "mem:" + t.addr + "/8:w" }

func startPerfStat(ctx context.Context, _ config, t *target) (watcher, error) {
	run, err := startPerf(ctx, "perf", "stat", "-x", ";", "-e", breakpoint(t), "-p", strconv.Itoa(t.cmd.Process.Pid))
	if err != nil {
		return nil, err
	}
	run.count = func(_ context.Context, said string) (int, error) { return parsePerfStat(said) }
	return run, nil
}

// perfRecord watches with perf record and the given flags.
func perfRecord(flags ...string) func(context.Context, config, *target) (watcher, error) {
	return func(ctx context.Context, c config, t *target) (watcher, error) {
		file := filepath.Join(c.dir, "perf"+strings.Join(flags, ""))
		args := []string{"perf", "record", "-o", file, "-c", "1", "-m", perfPages, "-e", breakpoint(t), "-p", strconv.Itoa(t.cmd.Process.Pid)}
		run, err := startPerf(ctx, append(args, flags...)...)
		if err != nil {
			return nil, err
		}
		run.count = func(ctx context.Context, _ string) (int, error) { return countPerf(ctx, file) }
		return run, nil
	}
}

func (p *perfRun) stop(ctx context.Context) (int, error) {
	defer p.close()
	if err := p.end(syscall.SIGINT); err != nil {
		return 0, err
	}
	return p.count(ctx, p.text.String())
}

// countPerf counts the samples of a file of perf record.
func countPerf(ctx context.Context, file string) (int, error) {
	out, err := exec.CommandContext(ctx, "perf", "report", "--stats", "-i", file).Output()
	if err != nil {
		return 0, fmt.Errorf("perf report --stats: %w", err)
	}
	return parsePerfStats(string(out))
}

// parsePerfStat reads the count from what perf stat -x says: "300000;;mem:0x...".
func parsePerfStat(said string) (int, error) {
	for line := range strings.Lines(said) {
		if count, rest, ok := strings.Cut(line, ";"); ok && strings.Contains(rest, "mem:") {
			return strconv.Atoi(count)
		}
	}
	return 0, fmt.Errorf("perf stat counted nothing:\n%s", said)
}

var sampleEvents = regexp.MustCompile(`(?m)^\s*SAMPLE events:\s+(\d+)`)

// parsePerfStats reads the number of samples from what perf report --stats says; it leaves the line out when there is none.
func parsePerfStats(said string) (int, error) {
	m := sampleEvents.FindStringSubmatch(said)
	if m == nil {
		if !strings.Contains(said, "TOTAL events") {
			return 0, fmt.Errorf("perf report --stats told nothing:\n%s", said)
		}
		return 0, nil
	}
	return strconv.Atoi(m[1])
}
