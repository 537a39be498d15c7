package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"xw/pkg/wire"
)

// hangs is how long anything may take before a test gives up.
const hangs = 60 * time.Second

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

// eventLog collects an events stream as it comes.
type eventLog struct {
	mu      sync.Mutex // protects what follows
	events  []wire.Record
	bytes   bytes.Buffer
	err     error
	count   map[uint32]int         // hits by watch
	current map[uint32]*wire.Bound // newest binding by watch
	done    chan struct{}          // closed at the end of the stream
}

// readEvents reads a stream to its end.
func readEvents(f *os.File) *eventLog {
	l := &eventLog{count: map[uint32]int{}, current: map[uint32]*wire.Bound{}, done: make(chan struct{})}
	go func() {
		defer close(l.done)
		r := wire.NewReader(io.TeeReader(f, l))
		for r.Next() {
			l.add(kept(r.Record()))
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.err = cmp.Or(l.err, r.Err())
	}()
	return l
}

// kept copies a record; of a sample, of which there may be many, without its registers.
func kept(rec wire.Record) (wire.Record, error) {
	if s, ok := rec.(*wire.Sample); ok {
		c := *s
		c.Regs, c.Callchain = nil, nil
		return &c, nil
	}
	return wire.Clone(rec)
}

func (l *eventLog) add(rec wire.Record, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events, l.err = append(l.events, rec), cmp.Or(l.err, err)
	switch r := rec.(type) {
	case *wire.Sample:
		l.count[r.Watch]++
	case *wire.Bound:
		if b := l.current[r.Watch]; b == nil || r.Generation >= b.Generation {
			l.current[r.Watch] = r
		}
	}
}

// Write keeps the bytes of the stream.
func (l *eventLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes.Write(b)
}

// await waits for an event.
func await[T wire.Record](t testing.TB, l *eventLog, what string, fits func(T) bool) (found T) {
	t.Helper()
	next := 0
	eventually(t, what, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		for ; next < len(l.events); next++ {
			if r, is := l.events[next].(T); is && fits(r) {
				found = r
				return true
			}
		}
		return false
	})
	return found
}

// bound waits until a watch is armed at an address by a command that came after a time.
func (p *pipeline) bound(watch uint32, addr, since uint64) *wire.Bound {
	p.t.Helper()
	return await(p.t, p.log, fmt.Sprintf("watch %d is bound to %#x", watch, addr), func(b *wire.Bound) bool {
		return b.Watch == watch && b.Addr == wire.Some(addr) && b.Start >= since && b.Errno == 0
	})
}

// unbound waits until a watch is armed nowhere.
func (p *pipeline) unbound(watch uint32, since uint64) *wire.Bound {
	p.t.Helper()
	return await(p.t, p.log, fmt.Sprintf("watch %d is unbound", watch), func(b *wire.Bound) bool {
		return b.Watch == watch && !b.Addr.OK && b.Start >= since && b.Errno == 0
	})
}

// settled waits until the newest binding of a watch is at an address.
func (p *pipeline) settled(watch uint32, addr uint64) {
	p.t.Helper()
	eventually(p.t, fmt.Sprintf("watch %d is at %#x", watch, addr), func() bool {
		b := p.binding(watch)
		return b != nil && b.Addr == wire.Some(addr)
	})
}

// stays waits until a watch has been at an address for a while.
func (p *pipeline) stays(watch uint32, addr uint64) {
	p.t.Helper()
	var since time.Time
	var before *wire.Bound
	eventually(p.t, fmt.Sprintf("watch %d stays at %#x", watch, addr), func() bool {
		b := p.binding(watch)
		if b == nil || b != before || b.Addr != wire.Some(addr) {
			before, since = b, time.Now()
		}
		return time.Since(since) > 100*time.Millisecond
	})
}

func (p *pipeline) binding(watch uint32) *wire.Bound {
	p.log.mu.Lock()
	defer p.log.mu.Unlock()
	return p.log.current[watch]
}

// refused waits for the record of a refused command.
func (p *pipeline) refused(reason string) {
	p.t.Helper()
	await(p.t, p.log, "refused: "+reason, func(r *wire.ControlRecord) bool { return strings.Contains(r.Reason, reason) })
}

// hits waits until a watch has been hit so often.
func (p *pipeline) hits(watch uint32, n int) {
	p.t.Helper()
	eventually(p.t, fmt.Sprintf("%d hits of watch %d", n, watch), func() bool {
		p.log.mu.Lock()
		defer p.log.mu.Unlock()
		return p.log.count[watch] >= n
	})
}

// result is a whole events stream and the report made of it.
type result struct {
	t      testing.TB
	events []wire.Record
	err    error
	stream []byte
	reportJSON
}

func (l *eventLog) result(t testing.TB) *result {
	t.Helper()
	select {
	case <-l.done:
	case <-time.After(hangs):
		t.Fatal("the stream does not end")
	}
	s := &result{t: t, events: l.events, err: l.err, stream: l.bytes.Bytes()}
	if l.err != nil {
		t.Errorf("the events stream: %v", l.err)
	}
	out := s.render("json")
	if err := json.Unmarshal(out, &s.reportJSON); err != nil {
		t.Fatalf("the report is no JSON: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the report:\n%s", s.render("text", "--top", "0"))
		}
	})
	return s
}

// render runs xw-report on the stream.
func (s *result) render(format string, args ...string) []byte {
	s.t.Helper()
	cmd := exec.Command(binary(s.t, "xw-report"), append([]string{"--format", format}, args...)...)
	cmd.Stdin = bytes.NewReader(s.stream)
	out, err := cmd.Output()
	if err != nil {
		s.t.Errorf("xw-report --format %s: %v", format, err)
	}
	return out
}

// reportJSON is what the tests look at in a report.
type reportJSON struct {
	Complete bool
	Gaps     []gapJSON
	Notes    []string
	Watches  []struct {
		ID       uint64
		Role     string
		Place    string
		Addr     *string
		Hits     uint64
		Counted  uint64
		Accesses *uint64
	}
	Chains []chainJSON
}

type gapJSON struct {
	Kind   string
	Detail string
	Watch  *uint64
	Count  *uint64
	From   *uint64 `json:"from_ns"`
	To     *uint64 `json:"to_ns"`
}

type chainJSON struct {
	Name     string
	Levels   []uint64
	Rebinds  uint64
	Blind    uint64 `json:"blind_ns"`
	Longest  uint64 `json:"longest_blind_ns"`
	Bindings []bindingJSON
}

type bindingJSON struct {
	Watch      uint64
	Generation uint64
	Addr       *string
	From       *uint64 `json:"from_ns"`
	To         *uint64 `json:"to_ns"`
	Hits       uint64
	Errno      *uint64
	Value      *string
}

// addr is where a binding was armed, 0 for nowhere.
func (b bindingJSON) addr() uint64 {
	if b.Addr == nil {
		return 0
	}
	addr, _ := strconv.ParseUint(*b.Addr, 0, 64) // 0 fails the test that looks at it
	return addr
}

// bindings are those of one watch.
func (s *result) bindings(watch uint64) (list []bindingJSON) {
	for _, c := range s.Chains {
		for _, b := range c.Bindings {
			if b.Watch == watch {
				list = append(list, b)
			}
		}
	}
	return list
}

// blind are the gaps in which a watch was blind.
func (s *result) blind(watch uint64) (list []gapJSON) {
	for _, g := range s.Gaps {
		if g.Kind == "blind" && g.Watch != nil && *g.Watch == watch {
			list = append(list, g)
		}
	}
	return list
}

// gaps are those of other kinds than the given ones.
func (s *result) gapsBut(kinds ...string) (list []gapJSON) {
	for _, g := range s.Gaps {
		if !slices.Contains(kinds, g.Kind) {
			list = append(list, g)
		}
	}
	return list
}

// all returns the events of one type.
func all[T wire.Record](s *result) (list []T) {
	for _, e := range s.events {
		if r, ok := e.(T); ok {
			list = append(list, r)
		}
	}
	return list
}

// samples are the hits of a watch.
func (s *result) samples(watch uint32) (list []*wire.Sample) {
	for _, r := range all[*wire.Sample](s) {
		if r.Watch == watch {
			list = append(list, r)
		}
	}
	return list
}

// counted checks that every hit that the kernel counted is in the stream.
func (s *result) counted() {
	s.t.Helper()
	for _, c := range all[*wire.Counts](s) {
		if n := uint64(len(s.samples(c.Watch))); n+c.AfterStop != c.Counted || c.Lost != 0 || c.Missed != 0 {
			s.t.Errorf("watch %d: %d samples, %+v", c.Watch, n, c)
		}
	}
}
