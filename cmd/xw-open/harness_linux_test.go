package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"xw/pkg/decode"
	"xw/pkg/hwtest"
	"xw/pkg/report"
	"xw/pkg/wire"
)

// runAsCommand makes the test binary behave as xw-open, so that the race detector looks at it too.
const runAsCommand = "XW_OPEN_RUN"

func TestMain(m *testing.M) {
	if os.Getenv(runAsCommand) != "" {
		os.Unsetenv(runAsCommand)
		main()
	}
	os.Exit(m.Run())
}

// hangs is how long anything may take before a test gives up: longer than on any machine that only is slow.
const hangs = 5 * time.Minute

// opened is a running xw-open.
type opened struct {
	t      testing.TB
	cmd    *exec.Cmd
	out    *os.File // reading end of its standard output
	lines  chan string
	said   []string // lines of standard error that were read so far
	stream chan []byte
	guard  *time.Timer
}

// command prepares xw-open with args.
func command(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), runAsCommand+"=1", "GORACE=atexit_sleep_ms=0")
	return cmd
}

// xwOpen starts xw-open and collects its stream.
func xwOpen(t testing.TB, args ...string) *opened {
	t.Helper()
	o := start(t, command(t, args...))
	o.collect()
	return o
}

// start starts a prepared xw-open; nobody reads its standard output before collect.
func start(t testing.TB, cmd *exec.Cmd) *opened {
	t.Helper()
	o := &opened{t: t, cmd: cmd, lines: make(chan string, 1000), stream: make(chan []byte, 1)}
	out, outEnd, err := os.Pipe()
	o.must(err)
	errs, errsEnd, err := os.Pipe()
	o.must(err)
	o.out = out
	if cmd.Stdout == nil {
		cmd.Stdout = outEnd
	}
	cmd.Stderr = errsEnd
	o.must(cmd.Start())
	outEnd.Close()
	errsEnd.Close()
	go func() {
		defer close(o.lines)
		for scan := bufio.NewScanner(errs); scan.Scan(); {
			o.lines <- scan.Text()
		}
	}()
	o.guard = time.AfterFunc(hangs, func() {
		t.Errorf("%q hangs", cmd.Args)
		cmd.Process.Kill()
	})
	t.Cleanup(func() {
		o.guard.Stop()
		out.Close()
		errs.Close()
		if cmd.ProcessState == nil {
			cmd.Process.Kill()
			cmd.Wait()
		}
		if t.Failed() {
			t.Logf("%q said:\n%s", cmd.Args, strings.Join(o.said, "\n"))
		}
	})
	return o
}

func (o *opened) must(err error) {
	o.t.Helper()
	if err != nil {
		o.t.Fatal(err)
	}
}

// collect reads the stream from now on.
func (o *opened) collect() {
	go func() {
		b, _ := io.ReadAll(o.out) // what is missing shows as a truncated stream
		o.stream <- b
	}()
}

// line waits for a line of standard error with the prefix and returns it whole.
func (o *opened) line(prefix string) string {
	o.t.Helper()
	for line := range o.lines {
		o.said = append(o.said, line)
		if strings.HasPrefix(line, prefix) {
			return line
		}
	}
	o.t.Fatalf("xw-open did not say %q but:\n%s", prefix, strings.Join(o.said, "\n"))
	return ""
}

// ready waits for the ready line and returns its fields.
func (o *opened) ready() map[string]string {
	o.t.Helper()
	fields := map[string]string{}
	for word := range strings.FieldsSeq(o.line("xw-open: ready ")) {
		if name, value, ok := strings.Cut(word, "="); ok {
			fields[name] = value
		}
	}
	return fields
}

func (o *opened) signal(sig os.Signal) {
	o.t.Helper()
	o.must(o.cmd.Process.Signal(sig))
}

// code waits for the end and returns the exit code, -1 for a signal.
func (o *opened) code() int {
	o.t.Helper()
	for line := range o.lines { // until it has closed standard error
		o.said = append(o.said, line)
	}
	_ = o.cmd.Wait() // a failure is in the state
	o.guard.Stop()
	return o.cmd.ProcessState.ExitCode()
}

// end waits for the end of xw-open, which must be with the exit code, and returns what it wrote.
func (o *opened) end(code int) *result {
	o.t.Helper()
	got := o.code()
	raw := <-o.stream
	if got != code {
		o.t.Errorf("%q: exit %d, want %d; it said\n%s", o.cmd.Args, got, code, strings.Join(o.said, "\n"))
	}
	return parse(o.t, raw)
}

// refused expects xw-open to fail with the code, and to say one message and one hint, none if it is empty. In both " ... "
// stands for any text.
func (o *opened) refused(code int, message, hint string) {
	o.t.Helper()
	if got := o.code(); got != code {
		o.t.Errorf("%q: exit %d, want %d", o.cmd.Args, got, code)
	}
	if raw := <-o.stream; len(raw) > 0 {
		o.t.Errorf("%q: %d bytes on standard output", o.cmd.Args, len(raw))
	}
	said := map[string][]string{}
	for _, line := range o.said {
		kind, text, _ := strings.Cut(line, ": ")
		said[kind] = append(said[kind], text)
	}
	var hints []string
	if hint != "" {
		hints = []string{hint}
	}
	if !match([]string{message}, said["xw-open"]) || !match(hints, said["hint"]) || len(o.said) != 1+len(hints) {
		o.t.Errorf("%q said\n%s\nwant\nxw-open: %s\nhint: %s", o.cmd.Args, strings.Join(o.said, "\n"), message, hint)
	}
}

// match compares lines with patterns in which " ... " stands for any text.
func match(patterns, lines []string) bool {
	if len(patterns) != len(lines) {
		return false
	}
	for i, line := range lines {
		parts := strings.Split(patterns[i], " ... ")
		if !strings.HasPrefix(line, parts[0]) || !strings.HasSuffix(line, parts[len(parts)-1]) {
			return false
		}
		for _, part := range parts {
			_, rest, ok := strings.Cut(line, part)
			if !ok {
				return false
			}
			line = rest
		}
	}
	return true
}

// result is a raw stream and what becomes of it.
type result struct {
	t       testing.TB
	header  wire.Session
	kinds   []string // of the raw records, in order
	events  []wire.Record
	samples []*wire.Sample
	counts  []*wire.Counts
	end     *wire.EndInfo // nil if the stream is truncated
	err     error         // of decoding
	report  *report.Report
}

// parse decodes a raw stream.
func parse(t testing.TB, raw []byte) *result {
	t.Helper()
	s := &result{t: t}
	for r := wire.NewReader(bytes.NewReader(raw)); r.Next(); {
		s.kinds = append(s.kinds, r.Record().Kind())
	}
	var events bytes.Buffer
	w := wire.NewWriter(&events)
	s.err = decode.Run(wire.NewReader(bytes.NewReader(raw)), w)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	r := wire.NewReader(&events)
	if !r.Next() {
		return s
	}
	header := r.Record().(*wire.Header)
	s.header = header.Session
	model, err := report.New(header, report.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for r.Next() {
		model.Add(r.Record())
		rec, err := wire.Clone(r.Record())
		if err != nil {
			t.Fatal(err)
		}
		s.events = append(s.events, rec)
		switch rec := rec.(type) {
		case *wire.Sample:
			s.samples = append(s.samples, rec)
		case *wire.Counts:
			s.counts = append(s.counts, rec)
		case *wire.End:
			s.end = &rec.Info
		}
	}
	model.Finish(r.Err())
	s.report = model.Report()
	return s
}

// all returns the events of one type.
func all[T wire.Record](s *result) (list []T) {
	for _, rec := range s.events {
		if r, ok := rec.(T); ok {
			list = append(list, r)
		}
	}
	return list
}

// stopped checks that the stream is whole and ends as it must: after the last ring data the counts, then the end.
func (s *result) stopped(reason string) {
	s.t.Helper()
	if s.err != nil || s.end == nil {
		s.t.Fatalf("the stream is not whole: %v", s.err)
	}
	if s.end.StopReason != reason {
		s.t.Errorf("stop reason %q (%s), want %q", s.end.StopReason, s.end.Error, reason)
	}
	if len(s.counts) != len(s.header.Watches) {
		s.t.Errorf("%d counts for %d watches", len(s.counts), len(s.header.Watches))
	}
	last := map[string]int{}
	for i, kind := range s.kinds {
		last[kind] = i
	}
	if last["counts"] < last["chunk"] || last["counts"] < last["round"] || last["end"] != len(s.kinds)-1 {
		s.t.Errorf("the last records are %q", s.kinds[max(0, len(s.kinds)-10):])
	}
}

// complete checks that the report is complete and that a watch has the number of hits, all counted by the kernel.
func (s *result) complete(watch, hits int) {
	s.t.Helper()
	if s.report == nil || !s.report.Complete {
		s.t.Errorf("the report is not complete: %+v", s.report)
		return
	}
	if w := s.report.Watches[watch]; w.Hits != uint64(hits) || w.Counted.V-w.AfterStop.V != uint64(hits) {
		s.t.Errorf("watch %s: %d hits, counted %d, after the stop %d, want %d", w.Name, w.Hits, w.Counted.V, w.AfterStop.V, hits)
	}
}

// accounted checks that the hits of a watch are what the kernel counted, but for those that are told as lost.
func (s *result) accounted(watch int) {
	s.t.Helper()
	w := s.report.Watches[watch]
	if w.Hits+w.Lost.V+w.AfterStop.V != w.Counted.V {
		s.t.Errorf("%d hits + %d lost + %d after the stop, counted %d", w.Hits, w.Lost.V, w.AfterStop.V, w.Counted.V)
	}
	if s.report.Complete != (w.Lost.V == 0) {
		s.t.Errorf("%d lost, complete %v, gaps %+v", w.Lost.V, s.report.Complete, s.report.Gaps)
	}
}

// worker is the program that most tests watch. Each line of input is a command, answered by one line of output.
const worker = `
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

volatile unsigned long counter;
volatile unsigned char bytes[24];
static volatile int hot;
static void *run_hot(void *a) { while (hot) counter++; return 0; }
static void *idle(void *a) { pause(); return 0; }
static void *run_exec(void *path) { execl(path, path, "again", NULL); abort(); }

static void serve(void)
{
	static pthread_t t;
	char line[4096], *arg;
	while (fgets(line, sizeof line, stdin)) {
		line[strcspn(line, "\n")] = 0;
		arg = line + 2;
		switch (line[0]) {
		case 'n': for (long n = atol(arg); n > 0; n--) counter++; break;    /* stores */
		case 'h': hot = 1; pthread_create(&t, 0, run_hot, 0); break;        /* stores flat out */
		case 'c': hot = 0; pthread_join(t, 0); break;                       /* no longer */
		case 't': for (int n = atoi(arg); n > 0; n--) pthread_create(&t, 0, idle, 0); break;
		case 'x': run_exec(arg);
		case 'X': pthread_create(&t, 0, run_exec, arg); pause();
		case 'q': exit(atoi(arg));
		case 'b': memset((void *)bytes, atoi(arg), sizeof bytes); break;
		}
		printf("done counter=%lu\n", counter);
		fflush(stdout);
	}
}
static void *server(void *a) { serve(); exit(0); }

int main(int argc, char **argv)
{
	pthread_t t;
	printf("ready counter=%p\n", (void *)&counter);
	fflush(stdout);
	if (argc > 1 && !strcmp(argv[1], "leaderless")) {
		pthread_create(&t, 0, server, 0);
		pthread_exit(0);
	}
	serve();
}
`

// target is a running worker.
type target struct{ *hwtest.Target }

func startWorker(t testing.TB, args ...string) target {
	t.Helper()
	return target{hwtest.Start(t, hwtest.BuildC(t, worker), args...)}
}

// do sends a command and returns the value of counter after it.
func (w target) do(format string, args ...any) (counter uint64) {
	w.Send(fmt.Sprintf(format, args...))
	line := w.Line()
	if _, err := fmt.Sscanf(line, "done counter=%d", &counter); err != nil {
		panic(fmt.Sprintf("worker answered %q", line))
	}
	return counter
}

// pid is the process as an argument.
func (w target) pid() string { return fmt.Sprint(w.PID) }

// forNobody makes programs that nobody (the user) may run: of xw-open, and of the given ones.
func forNobody(t testing.TB, programs ...string) (credential *syscall.SysProcAttr, self string, copies []string) {
	t.Helper()
	hwtest.RequireRoot(t)
	dir, err := os.MkdirTemp("", "xw-open-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	self, err = os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for i, program := range append([]string{self}, programs...) {
		b, err := os.ReadFile(program)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, fmt.Sprintf("%d-%s", i, filepath.Base(program)))
		if err := os.WriteFile(path, b, 0o755); err != nil {
			t.Fatal(err)
		}
		copies = append(copies, path)
	}
	const nobody = 65534
	credential = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	return credential, copies[0], copies[1:]
}
