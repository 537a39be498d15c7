//go:build amd64

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"xw/pkg/wire"
)

// TestMain builds the commands and puts them first in PATH.
func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "xw-e2e")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	build := exec.Command("go", "build", "-o", dir+"/", "xw/cmd/...")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the commands: %v\n%s", err, out)
		return 1
	}
	// Other users run them too.
	if err := os.Chmod(dir, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	os.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	return m.Run()
}

// hangs is how long anything may take before a test gives up: longer than on any machine that only is slow.
const hangs = 5 * time.Minute

// session is a running xw-open, whose stream goes to a file.
type session struct {
	t     testing.TB
	cmd   *exec.Cmd
	raw   string
	lines chan string
	said  []string
	ready map[string]string
}

// attach watches a process and waits for the ready line.
func attach(t testing.TB, pid int, args ...string) *session {
	t.Helper()
	return attachBy(t, exec.Command("xw-open", append([]string{"--pid", strconv.Itoa(pid)}, args...)...))
}

// attachBy is attach by a prepared xw-open.
func attachBy(t testing.TB, cmd *exec.Cmd) *session {
	t.Helper()
	s := &session{t: t, cmd: cmd, raw: filepath.Join(t.TempDir(), "raw"), lines: make(chan string, 100), ready: map[string]string{}}
	out, err := os.Create(s.raw)
	s.must(err)
	defer out.Close()
	errs, errsEnd, err := os.Pipe()
	s.must(err)
	cmd.Stdout, cmd.Stderr = out, errsEnd
	s.must(cmd.Start())
	errsEnd.Close()
	guard := time.AfterFunc(hangs, func() { cmd.Process.Kill() })
	t.Cleanup(func() {
		guard.Stop()
		if cmd.ProcessState == nil {
			cmd.Process.Kill()
			cmd.Wait()
		}
		errs.Close()
		if t.Failed() {
			t.Logf("%q said:\n%s", cmd.Args, strings.Join(s.said, "\n"))
		}
	})
	go func() {
		defer close(s.lines)
		for scan := bufio.NewScanner(errs); scan.Scan(); {
			s.lines <- scan.Text()
		}
	}()
	for line := range s.lines {
		s.said = append(s.said, line)
		if words, ok := strings.CutPrefix(line, "xw-open: ready "); ok {
			for word := range strings.FieldsSeq(words) {
				name, value, _ := strings.Cut(word, "=")
				s.ready[name] = value
			}
			return s
		}
	}
	s.t.Fatalf("%q is not ready:\n%s", cmd.Args, strings.Join(s.said, "\n"))
	return nil
}

func (s *session) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// shell is a command by sh, which is to exec xw-open at its end.
func shell(script string) *exec.Cmd { return exec.Command("sh", "-c", script) }

// rss is the most memory that xw-open has had resident so far, in KiB.
func (s *session) rss() int {
	s.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	s.must(err)
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "VmHWM:" {
			n, err := strconv.Atoi(f[1])
			s.must(err)
			return n
		}
	}
	s.t.Fatal("no VmHWM")
	return 0
}

// stop interrupts xw-open and reads what it has seen.
func (s *session) stop() *seen {
	s.t.Helper()
	s.must(s.cmd.Process.Signal(syscall.SIGINT))
	return s.wait()
}

// wait waits for the end of xw-open and reads what it has seen.
func (s *session) wait() *seen {
	s.t.Helper()
	for line := range s.lines {
		s.said = append(s.said, line)
	}
	if err := s.cmd.Wait(); err != nil {
		s.t.Fatalf("%q: %v", s.cmd.Args, err)
	}
	return read(s.t, s.raw)
}

// seen is what a session has seen: its events, and the report on them.
type seen struct {
	t      testing.TB
	events string
	report
}

// read decodes a raw stream and reports on it.
func read(t testing.TB, raw string) *seen {
	t.Helper()
	s := &seen{t: t, events: raw + ".events"}
	pipe(t, raw, s.events, "xw-decode")
	pipe(t, s.events, raw+".json", "xw-report", "--format", "json")
	b, err := os.ReadFile(raw + ".json")
	if err != nil {
		t.Fatal(err)
	}
	s.report = parse(t, b)
	return s
}

// parse reads a report in JSON.
func parse(t testing.TB, b []byte) (r report) {
	t.Helper()
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatalf("read the report: %v\n%s", err, b)
	}
	return r
}

// pipe runs a command from a file to a file.
func pipe(t testing.TB, from, to string, name string, args ...string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	var errs bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, &errs
	if err := cmd.Run(); err != nil || errs.Len() > 0 {
		t.Fatalf("%s: %v\n%s", name, err, &errs)
	}
}

// samples calls f with every sample of the events, in their order.
func (s *seen) samples(f func(*wire.Sample)) {
	s.t.Helper()
	in, err := os.Open(s.events)
	if err != nil {
		s.t.Fatal(err)
	}
	defer in.Close()
	r := wire.NewReader(in)
	for r.Next() {
		if sample, ok := r.Record().(*wire.Sample); ok {
			f(sample)
		}
	}
	if err := r.Err(); err != nil {
		s.t.Fatalf("read the events: %v", err)
	}
}

// values are the values of the samples of a watch, in their order; a missing one fails the test.
func (s *seen) values(watch uint32) (values []uint64) {
	s.t.Helper()
	missing := 0
	s.samples(func(sample *wire.Sample) {
		if sample.Watch != watch {
			return
		}
		if !sample.Value.OK {
			missing++
		}
		values = append(values, sample.Value.V)
	})
	if missing > 0 {
		s.t.Errorf("%d of %d hits of watch %d are without a value", missing, len(values), watch)
	}
	return values
}

// wantSequence wants the values first, first+1... of a watch's hits.
func (s *seen) wantSequence(watch uint32, first uint64) {
	s.t.Helper()
	wrong := 0
	for i, v := range s.values(watch) {
		if v != first+uint64(i) {
			if wrong++; wrong <= 3 {
				s.t.Errorf("value %d is %d, want %d", i, v, first+uint64(i))
			}
		}
	}
	if wrong > 0 {
		s.t.Errorf("%d values are wrong", wrong)
	}
}

// wantHits wants that many hits of a watch, as many counted by the kernel, and nothing lost.
func (s *seen) wantHits(watch int, n uint64) {
	s.t.Helper()
	w := s.Watches[watch]
	if w.Hits != n || w.Counted != n || w.Lost != 0 || w.Missed != 0 || w.AfterStop != 0 {
		s.t.Errorf("watch %s: %d hits, counted %d, lost %d, missed %d, after the stop %d; want %d", w.Name, w.Hits, w.Counted, w.Lost, w.Missed, w.AfterStop, n)
	}
}

// wantComplete wants a report without gaps.
func (s *seen) wantComplete() {
	s.t.Helper()
	if !s.Complete {
		s.t.Errorf("not complete: %d gaps, %+v", len(s.Gaps), s.Gaps[:min(len(s.Gaps), 5)])
	}
}

// gapsOf counts the gaps of a kind.
func (s *seen) gapsOf(kind string) (n int) {
	for _, g := range s.Gaps {
		if g.Kind == kind {
			n++
		}
	}
	return n
}

// report is what the tests read of the schema xw.report/1. Numbers that may be null are 0 then, where that does not
// matter.
type report struct {
	Complete bool
	Gaps     []gap
	Notes    []string
	Session  struct {
		Scope, Values, Kernel string
		StopReason            string `json:"stop_reason"`
		ThreadsAtAttach       int    `json:"threads_at_attach"`
		ThreadsSeen           int    `json:"threads_seen"`
	}
	Watches []watchReport
}

type gap struct {
	Kind   string
	Count  *uint64
	Watch  *uint64
	Detail string
	TID    *int
	From   *uint64 `json:"from_ns"`
	To     *uint64 `json:"to_ns"`
}

func (g gap) String() string { return fmt.Sprintf("%s: %s", g.Kind, g.Detail) }

type watchReport struct {
	Name, Addr               string
	Hits, Counted, Lost      uint64
	AfterStop                uint64 `json:"after_stop"`
	Emitted, Foreign, Missed uint64
	LastValue                *string `json:"last_value"`
	ChangedWithoutHit        *bool   `json:"changed_without_hit"`
	Threads                  []struct {
		TID  *int
		Comm string
		Hits uint64
	}
	Sites []site
}

type site struct {
	IP, Op, Func, Syscall string
	Insn                  string
	File                  string
	Origin                int
	Hits                  uint64
	Accesses              *uint64
	User                  *struct{ IP, Func string }
}
