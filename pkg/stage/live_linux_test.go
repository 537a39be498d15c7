package stage

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The commands that the tests of this file run as processes of their own, by name.
func liveCommand(name string) Command {
	ready := func(s *Stage) { s.Say("ready") }
	copyAll := func(_ context.Context, s *Stage) error {
		ready(s)
		_, err := io.Copy(s.Stdout, s.Stdin)
		return err
	}
	c := Command{Name: "xw-live", Rule: Filter, Do: copyAll}
	switch name {
	case "source":
		c.Rule = Source
		c.Do = func(ctx context.Context, s *Stage) error {
			ready(s)
			<-ctx.Done()
			s.Say("stopped: %v", context.Cause(ctx))
			return nil
		}
	case "filter":
	case "sink":
		c.Rule = Sink
		c.Do = func(ctx context.Context, s *Stage) error {
			ready(s)
			data, err := io.ReadAll(s.Stdin)
			fmt.Fprintf(s.Stdout, "report of %d bytes\n", len(data))
			return err
		}
	case "stuck": // takes no notice of its context
		c.Rule = Sink
		c.Do = func(_ context.Context, s *Stage) error { ready(s); select {} }
	case "flood":
		c.Do = func(_ context.Context, s *Stage) error {
			ready(s)
			for {
				if _, err := s.Stdout.Write(make([]byte, 4096)); err != nil {
					return err
				}
			}
		}
	case "idle":
		c.Do = func(ctx context.Context, s *Stage) error {
			if err := s.WatchDownstream(); err != nil {
				return err
			}
			ready(s)
			_, err := io.Copy(s.Stdout, s.Stdin)
			return err
		}
	case "terminal":
		c.Do = func(_ context.Context, s *Stage) error {
			s.Say("stdout %v %dx%d %v stderr %v", s.StdoutIsTerminal(), s.Width(), s.Height(), s.Color("auto"), s.StderrIsTerminal())
			if err := s.BinaryIn("xw-live < FILE"); err != nil {
				return err
			}
			return s.BinaryOut("xw-live > FILE")
		}
	case "progress":
		c.Rule = Sink
		c.Do = func(_ context.Context, s *Stage) error {
			stop := s.Progress(func() string { return "read " + strings.Repeat("a\tlot ", 40) })
			_, err := io.Copy(io.Discard, s.Stdin)
			s.Say("half")
			stop()
			s.Say("done")
			return err
		}
	case "child": // prints the signals that a child of it finds ignored
		c.Do = func(_ context.Context, s *Stage) error {
			out, err := exec.Command("grep", "SigIgn", "/proc/self/status").Output()
			s.Say("%s", out)
			return err
		}
	}
	return c
}

const liveEnv = "XW_STAGE_TEST_COMMAND"

func TestMain(m *testing.M) {
	if name := os.Getenv(liveEnv); name != "" {
		os.Exit(Run(liveCommand(name), nil, os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// live is a command in a process of its own.
type live struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout io.ReadCloser
	stderr *bufio.Reader
}

func startLive(t *testing.T, name string) *live {
	t.Helper()
	l := newLive(t, name)
	l.start()
	if line := l.line(); line != "xw-live: ready" {
		t.Fatalf("first line %q", line)
	}
	return l
}

// newLive prepares the command; the caller may change l.cmd before start.
func newLive(t *testing.T, name string) *live {
	l := &live{t: t, cmd: exec.Command(os.Args[0])}
	l.cmd.Env = liveEnviron(name)
	return l
}

// liveEnviron makes a child run the named command. The race detector would let it sleep for a second at its end.
func liveEnviron(name string) []string {
	return append(os.Environ(), liveEnv+"="+name, "GORACE=atexit_sleep_ms=0")
}

func (l *live) start() {
	l.t.Helper()
	var err error
	if l.cmd.Stdin == nil {
		l.stdin, err = l.cmd.StdinPipe()
		l.must(err)
	}
	if l.cmd.Stdout == nil {
		l.stdout, err = l.cmd.StdoutPipe()
		l.must(err)
	}
	stderr, err := l.cmd.StderrPipe()
	l.must(err)
	l.stderr = bufio.NewReader(stderr)
	l.must(l.cmd.Start())
	l.t.Cleanup(func() { l.cmd.Process.Kill(); l.cmd.Wait() })
}

func (l *live) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *live) line() string {
	line, _ := l.stderr.ReadString('\n')
	return strings.TrimSuffix(line, "\n")
}

// signal sends sig and waits until the process has taken it from the kernel, so that a second one does not merge with
// it.
func (l *live) signal(sig syscall.Signal) {
	l.t.Helper()
	l.must(l.cmd.Process.Signal(sig))
	for pending := true; pending; {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", l.cmd.Process.Pid))
		l.must(err)
		_, rest, _ := strings.Cut(string(status), "ShdPnd:\t")
		var mask uint64
		fmt.Sscanf(rest, "%x", &mask)
		pending = mask&(1<<(sig-1)) != 0
		time.Sleep(time.Millisecond)
	}
}

// wait returns the exit code and what was left on standard error.
func (l *live) wait() (int, string) {
	l.t.Helper()
	rest, _ := io.ReadAll(l.stderr)
	var exit *exec.ExitError
	if err := l.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		l.t.Fatal(err)
	}
	if !l.cmd.ProcessState.Exited() {
		l.t.Fatalf("did not exit: %v", l.cmd.ProcessState)
	}
	return l.cmd.ProcessState.ExitCode(), string(rest)
}

func (l *live) wantExit(code int, stderr string) {
	l.t.Helper()
	if c, e := l.wait(); c != code || e != stderr {
		l.t.Errorf("exit %d, stderr %q, want %d, %q", c, e, code, stderr)
	}
}

func TestSourceStopsAtFirstSignal(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		l := startLive(t, "source")
		l.signal(sig)
		l.wantExit(0, "xw-live: stopped: interrupted by signal: "+sig.String()+"\n")
	}
}

func TestFilterGoesOnUntilInputEnds(t *testing.T) {
	l := startLive(t, "filter")
	l.signal(syscall.SIGINT)
	io.WriteString(l.stdin, "the last records")
	l.stdin.Close()
	out, _ := io.ReadAll(l.stdout)
	if string(out) != "the last records" {
		t.Errorf("passed on %q", out)
	}
	l.wantExit(0, "")
}

func TestFilterEndsAtSecondSignal(t *testing.T) {
	l := startLive(t, "filter")
	l.signal(syscall.SIGINT)
	l.signal(syscall.SIGTERM)
	l.wantExit(1, "xw-live: interrupted by signal: terminated\n")
}

func TestFilterEndsWhileDownstreamStalls(t *testing.T) {
	l := startLive(t, "flood") // nobody reads its output
	l.signal(syscall.SIGINT)
	l.signal(syscall.SIGINT)
	if code, _ := l.wait(); code != 1 {
		t.Errorf("exit %d", code)
	}
}

func TestSinkPrintsWhatItHas(t *testing.T) {
	l := startLive(t, "sink")
	io.WriteString(l.stdin, "12345")
	// The bytes are taken from the pipe before the signals are sent.
	for n := 1; n > 0; {
		var err error
		n, err = unix.IoctlGetInt(int(l.stdin.(*os.File).Fd()), unix.TIOCINQ)
		l.must(err)
	}
	l.signal(syscall.SIGINT)
	l.signal(syscall.SIGINT)
	out, _ := io.ReadAll(l.stdout)
	code, errOut := l.wait()
	if code != 1 || !strings.HasPrefix(string(out), "report of ") || errOut != "xw-live: interrupted by signal: interrupt\n" {
		t.Errorf("exit %d, stdout %q, stderr %q", code, out, errOut)
	}
}

func TestThirdSignalEndsAnything(t *testing.T) {
	l := startLive(t, "stuck")
	l.signal(syscall.SIGINT)
	l.signal(syscall.SIGINT)
	l.signal(syscall.SIGINT)
	l.wantExit(1, "")
}

func TestIgnoredSignalsStayIgnored(t *testing.T) {
	l := newLive(t, "source")
	l.cmd = exec.Command("sh", "-c", `trap "" HUP INT; exec "$0"`, os.Args[0])
	l.cmd.Env = liveEnviron("source")
	l.start()
	if line := l.line(); line != "xw-live: ready" {
		t.Fatalf("first line %q", line)
	}
	l.signal(syscall.SIGHUP)
	l.signal(syscall.SIGINT)
	l.signal(syscall.SIGTERM)
	l.wantExit(0, "xw-live: stopped: interrupted by signal: terminated\n")
}

func TestChildFindsSignalsAsTheyWere(t *testing.T) {
	for _, trap := range []string{`trap - PIPE`, `trap "" INT HUP`} {
		// What the shell's own child finds: the tests may have been started with signals ignored.
		want, err := exec.Command("sh", "-c", trap+`; exec grep SigIgn /proc/self/status`).Output()
		if err != nil {
			t.Fatal(err)
		}
		l := newLive(t, "child")
		l.cmd = exec.Command("sh", "-c", trap+`; exec "$0"`, os.Args[0])
		l.cmd.Env = liveEnviron("child")
		l.start()
		l.wantExit(0, "xw-live: "+strings.ReplaceAll(string(want), "\t", `\t`))
	}
}

func TestClosedDownstreamIsQuiet(t *testing.T) {
	t.Run("shown by a write", func(t *testing.T) {
		l := startLive(t, "flood")
		l.stdout.Close()
		l.wantExit(0, "")
	})
	t.Run("shown without a write", func(t *testing.T) {
		l := startLive(t, "idle") // its input never ends
		l.stdout.Close()
		l.wantExit(0, "")
	})
	t.Run("files have no reader to go", func(t *testing.T) {
		l := newLive(t, "idle")
		file, err := os.CreateTemp(t.TempDir(), "out")
		l.must(err)
		l.cmd.Stdout = file
		l.start()
		io.WriteString(l.stdin, "data")
		l.stdin.Close()
		l.wantExit(0, "xw-live: ready\n")
		if data, _ := os.ReadFile(file.Name()); string(data) != "data" {
			t.Errorf("file has %q", data)
		}
	})
	t.Run("a full disk is a failure", func(t *testing.T) {
		l := newLive(t, "flood")
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		l.must(err)
		l.cmd.Stdout = full
		l.start()
		l.wantExit(1, "xw-live: ready\nxw-live: standard output: write /dev/stdout: no space left on device\n")
	})
}

// pty returns both ends of a pseudo terminal of 97 columns.
func pty(t *testing.T) (master, slave *os.File) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	check(err)
	t.Cleanup(func() { master.Close() })
	check(unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	check(err)
	check(unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 97}))
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	check(err)
	t.Cleanup(func() { slave.Close() })
	return master, slave
}

func TestTerminals(t *testing.T) {
	_, slave := pty(t)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name        string
		in, out     *os.File
		env, stderr string
		code        int
	}{
		{"none", null, null, "TERM=xterm", "xw-live: stdout false 0x0 false stderr false\n", 0},
		{"output", null, slave, "TERM=xterm", "xw-live: stdout true 97x24 true stderr false\n" +
			"xw-live: standard output is a terminal, and the stream is binary\nhint: xw-live > FILE\n", 2},
		{"input", slave, null, "TERM=xterm", "xw-live: stdout false 0x0 false stderr false\n" +
			"xw-live: standard input is a terminal, and a stream is expected\nhint: xw-live < FILE\n", 2},
		{"dumb", slave, slave, "TERM=dumb", "xw-live: stdout true 97x24 false stderr false\n" +
			"xw-live: standard input is a terminal, and a stream is expected\nhint: xw-live < FILE\n", 2},
		{"no colour", slave, slave, "NO_COLOR=1", "xw-live: stdout true 97x24 false stderr false\n" +
			"xw-live: standard input is a terminal, and a stream is expected\nhint: xw-live < FILE\n", 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLive(t, "terminal")
			l.cmd.Env = append(l.cmd.Env, "NO_COLOR=", test.env)
			l.cmd.Stdin, l.cmd.Stdout = test.in, test.out
			l.start()
			l.wantExit(test.code, test.stderr)
		})
	}
}

// TestProgress: a line of status fits into the terminal, and nothing is left of it in the end.
func TestProgress(t *testing.T) {
	master, slave := pty(t)
	l := newLive(t, "progress")
	l.cmd.Stderr = slave
	var err error
	l.stdin, err = l.cmd.StdinPipe()
	l.must(err)
	l.must(l.cmd.Start())
	t.Cleanup(func() { l.cmd.Process.Kill(); l.cmd.Wait() })
	out := bufio.NewReader(master)
	line := "xw-live: read " + strings.Repeat(`a\tlot `, 40)
	line = line[:96] // one column less than there are
	shown := make([]byte, len(line))
	if _, err := io.ReadFull(out, shown); err != nil || string(shown) != line {
		t.Errorf("status %q, want %q, %v", shown, line, err)
	}
	l.stdin.Close()
	var rest strings.Builder
	for !strings.HasSuffix(rest.String(), "done\r\n") {
		c, err := out.ReadByte()
		l.must(err)
		rest.WriteByte(c)
	}
	screen := line
	for i, piece := range strings.Split(rest.String(), eraseLine) {
		if i > 0 {
			screen = screen[:strings.LastIndex(screen, "\n")+1]
		}
		screen += piece
	}
	if screen != "xw-live: half\r\nxw-live: done\r\n" {
		t.Errorf("the screen shows %q", screen)
	}
	l.must(l.cmd.Wait())
}

// TestInputIsWidened: what a filter reads from a pipe may wait there in large pieces.
func TestInputIsWidened(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	w.Close()
	size := 0
	run := func(context.Context, *Stage) (err error) {
		control(r, func(fd int) { size, err = unix.FcntlInt(uintptr(fd), unix.F_GETPIPE_SZ, 0) })
		return err
	}
	if code := Run(Command{Name: "filter", Rule: Filter, Do: run}, nil, r, io.Discard, io.Discard); code != 0 || size != widePipe {
		t.Errorf("exit %d, the pipe holds %d bytes", code, size)
	}
}
