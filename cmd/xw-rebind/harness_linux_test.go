package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// hangs is how long anything may take before a test gives up: longer than on any machine that only is slow.
const hangs = 5 * time.Minute

// buildBinaries builds the four commands once for all tests; the directory is for everybody to use.
var buildBinaries = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "xw-rebind-test")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return dir, err
	}
	build := exec.Command("go", "build", "-o", dir+"/", "xw/cmd/...")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return dir, fmt.Errorf("build the commands: %w\n%s", err, out)
	}
	return dir, nil
})

var removeBinaries = func() {}

func TestMain(m *testing.M) {
	code := m.Run()
	removeBinaries()
	os.Exit(code)
}

// binary returns the path of one of the four commands.
func binary(t testing.TB, name string) string {
	t.Helper()
	dir, err := buildBinaries()
	removeBinaries = func() { os.RemoveAll(dir) }
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name)
}

// process is a running command; its messages are collected.
type process struct {
	t    testing.TB
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended

	mu   sync.Mutex // protects said
	said bytes.Buffer
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.Write(b)
}

func (p *process) messages() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.String()
}

// launch starts a prepared command and closes the files that it was given.
func launch(t testing.TB, cmd *exec.Cmd, given ...*os.File) *process {
	t.Helper()
	p := &process{t: t, name: filepath.Base(cmd.Path), cmd: cmd, done: make(chan struct{})}
	cmd.Stderr = p
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, f := range given {
		f.Close()
	}
	go func() {
		_ = cmd.Wait() // a failure is in the state
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // fails if it has ended
		<-p.done
		if t.Failed() {
			t.Logf("%q said:\n%s", cmd.Args, p.messages())
		}
	})
	return p
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(hangs); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// says waits for a message.
func (p *process) says(text string) {
	p.t.Helper()
	eventually(p.t, fmt.Sprintf("%s says %q but\n%s", p.name, text, p.messages()), func() bool {
		if strings.Contains(p.messages(), text) {
			return true
		}
		select {
		case <-p.done:
			p.t.Fatalf("%s ended and never said %q but\n%s", p.name, text, p.messages())
		default:
		}
		return false
	})
}

func (p *process) signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatalf("signal %s: %v", p.name, err)
	}
}

// paused does something while a command is stopped.
func (p *process) paused(do func()) {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
	defer p.signal(syscall.SIGCONT)
	eventually(p.t, p.name+" is stopped", func() bool {
		stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.cmd.Process.Pid))
		return err == nil && len(stats) > 0 && !slices.ContainsFunc(stats, func(stat string) bool {
			b, err := os.ReadFile(stat) // that of a thread that has ended since is not there
			return err == nil && !bytes.HasPrefix(b[bytes.LastIndexByte(b, ')')+1:], []byte(" T"))
		})
	})
	do()
}

// ends waits for the end and checks the exit code, -1 for a signal.
func (p *process) ends(code int) {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(hangs):
		p.t.Fatalf("%s hangs", p.name)
	}
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		p.t.Errorf("%s: exit %d, want %d", p.name, got, code)
	}
}

// setup is how a pipe of commands is started.
type setup struct {
	args       []string // of xw-open
	noControl  bool     // no --control and no xw-rebind
	noRebind   bool     // the test starts xw-rebind
	first      bool     // xw-rebind starts before xw-open
	env        []string
	user       *syscall.SysProcAttr
	rebindUser *syscall.SysProcAttr // if it is another one
	wrapper    []string             // runs xw-open
	command    []string             // started by xw-open
	stdin      *os.File             // of xw-open, closed in this process
}

// pipeline is xw-open | xw-decode | xw-rebind, whose events the test reads.
type pipeline struct {
	t       testing.TB
	setup   setup
	control string
	open    *process
	decode  *process
	rebind  *process // nil without
	decoded *os.File // from xw-decode

	log *eventLog
}

func startPipeline(t testing.TB, s setup) *pipeline {
	t.Helper()
	dir, err := os.MkdirTemp("", "xw-control")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if s.rebindUser == nil {
		s.rebindUser = s.user
	}
	if s.rebindUser != nil {
		if err := os.Chown(dir, int(s.rebindUser.Credential.Uid), -1); err != nil {
			t.Fatal(err)
		}
	}
	p := &pipeline{t: t, setup: s, control: filepath.Join(dir, "ctl")}
	raw, rawEnd := newPipe(t)
	decoded, decodedEnd := newPipe(t)
	p.decoded = decoded
	if s.first {
		p.startRebind()
	}
	args := slices.Clone(s.args)
	if !s.noControl {
		args = append(args, "--control", p.control)
	}
	if s.command != nil {
		args = append(append(args, "--"), s.command...)
	}
	line := slices.Concat(s.wrapper, []string{binary(t, "xw-open")}, args)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Stdout, cmd.SysProcAttr, cmd.Env = rawEnd, s.user, append(os.Environ(), s.env...)
	given := []*os.File{rawEnd}
	if s.stdin != nil {
		cmd.Stdin, given = s.stdin, append(given, s.stdin)
	}
	p.open = launch(t, cmd, given...)
	cmd = exec.Command(binary(t, "xw-decode"))
	cmd.Stdin, cmd.Stdout, cmd.SysProcAttr = raw, decodedEnd, s.user
	p.decode = launch(t, cmd, raw, decodedEnd)
	switch {
	case s.noControl:
		p.log = readEvents(decoded)
	case !s.first && !s.noRebind:
		p.startRebind()
	}
	return p
}

// startRebind puts xw-rebind behind xw-decode and reads what it writes.
func (p *pipeline) startRebind() {
	p.t.Helper()
	events, eventsEnd := newPipe(p.t)
	p.rebind = p.newRebind(p.decoded, eventsEnd)
	p.log = readEvents(events)
}

// newRebind starts xw-rebind. It has then the only descriptors that are left of in and out.
func (p *pipeline) newRebind(in, out *os.File) *process {
	p.t.Helper()
	cmd := exec.Command(binary(p.t, "xw-rebind"), "--control", p.control)
	cmd.Stdin, cmd.Stdout, cmd.SysProcAttr = in, out, p.setup.rebindUser
	return launch(p.t, cmd, in, out)
}

func newPipe(t testing.TB) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// ready waits until xw-open has armed everything, and returns the words of its ready line.
func (p *pipeline) ready() map[string]string {
	p.t.Helper()
	p.open.says("xw-open: ready ")
	words := map[string]string{}
	for line := range strings.Lines(p.open.messages()) {
		if strings.HasPrefix(line, "xw-open: ready ") {
			for word := range strings.FieldsSeq(line) {
				if name, value, ok := strings.Cut(word, "="); ok {
					words[name] = value
				}
			}
		}
	}
	return words
}

// stop interrupts xw-open, waits until all have ended, as they should, and returns what was seen.
func (p *pipeline) stop() *result {
	p.t.Helper()
	p.open.signal(syscall.SIGINT)
	return p.end()
}

// end waits until all have ended by themselves.
func (p *pipeline) end() *result {
	p.t.Helper()
	for _, c := range []*process{p.open, p.decode, p.rebind} {
		if c != nil {
			c.ends(0)
		}
	}
	return p.log.result(p.t)
}
