package launch

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"xw/pkg/hwtest"
)

const mainProgram = `#include <stdio.h>
int main(void) { puts("main"); return 7; }
`

// started is a child whose output can be read.
type started struct {
	*Child
	t      *testing.T
	output *os.File
}

func start(t *testing.T, argv ...string) *started {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	child, err := Start(Command{Argv: argv, Stdin: null, Stdout: w, Stderr: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = child.Kill() // it has ended if all went well
		r.Close()
	})
	return &started{child, t, r}
}

func (s *started) run(want Event) {
	s.t.Helper()
	event, err := s.RunToEntry(context.Background())
	if err != nil || event != want {
		s.t.Fatalf("RunToEntry: %v, %v, want %v", event, err, want)
	}
}

func (s *started) detach() {
	s.t.Helper()
	if err := s.Detach(); err != nil {
		s.t.Fatal(err)
	}
}

func (s *started) read(want string) {
	s.t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(s.output, got); err != nil || string(got) != want {
		s.t.Fatalf("read %q, %v, want %q", got, err, want)
	}
}

// wantEnd checks all output that is still to come, and the status.
func (s *started) wantEnd(output, status string) {
	s.t.Helper()
	rest, _ := io.ReadAll(s.output)
	if got := s.Wait(); got != status || string(rest) != output {
		s.t.Errorf("status %q, output %q, want %q, %q", got, rest, status, output)
	}
}

// wantSilent checks that the program has printed nothing: it would be in the pipe.
func (s *started) wantSilent() {
	s.t.Helper()
	if n, err := unix.IoctlGetInt(int(s.output.Fd()), unix.TIOCINQ); err != nil || n != 0 {
		s.t.Errorf("the held program has printed %d bytes, %v", n, err)
	}
}

// wantEntry checks that the program is at its entry point, whose code is as in the file.
func (s *started) wantEntry(path string) {
	s.t.Helper()
	entry, err := entryPoint(s.PID())
	if err != nil {
		s.t.Fatal(err)
	}
	var rip uint64
	err = s.call(func() (err error) {
		rip, err = s.tracee.rip()
		return err
	})
	if err != nil || rip != entry {
		s.t.Errorf("instruction pointer %#x, %v, entry point %#x", rip, err, entry)
	}
	want := codeAtEntry(s.t, path)
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", s.PID()))
	if err != nil {
		s.t.Fatal(err)
	}
	defer mem.Close()
	got := make([]byte, len(want))
	if _, err := mem.ReadAt(got, int64(entry)); err != nil || !bytes.Equal(got, want) {
		s.t.Errorf("code at the entry point % x, %v, in the file % x", got, err, want)
	}
}

func codeAtEntry(t *testing.T, path string) []byte {
	t.Helper()
	file, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, p := range file.Progs {
		if p.Type == elf.PT_LOAD && file.Entry >= p.Vaddr && file.Entry < p.Vaddr+p.Filesz {
			code := make([]byte, 16)
			if _, err := p.ReadAt(code, int64(file.Entry-p.Vaddr)); err != nil {
				t.Fatal(err)
			}
			return code
		}
	}
	t.Fatal("entry point in no segment")
	return nil
}

func TestKindsOfPrograms(t *testing.T) {
	for _, test := range []struct {
		name     string
		compiler string
		flags    []string
	}{
		{"pie", "cc", []string{"-pie", "-fPIE"}},
		{"fixed address", "cc", []string{"-no-pie"}},
		{"static", "cc", []string{"-static"}},
		{"static pie", "cc", []string{"-static-pie", "-fPIE"}},
		{"32 bit", "cc", []string{"-m32"}},
		{"musl", "musl-gcc", nil},
		{"musl static", "musl-gcc", []string{"-static"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.compiler == "cc" {
				hwtest.RequireC(t, test.flags...)
			}
			path := hwtest.Compile(t, test.compiler, "main.c", mainProgram, test.flags...)
			s := start(t, path)
			s.wantSilent()
			if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", s.PID())); err != nil || exe != path {
				t.Errorf("held at exec it runs %q, %v", exe, err)
			}
			s.run(AtEntry)
			s.wantSilent()
			s.wantEntry(path)
			if status := s.Status(); status != "running" {
				t.Errorf("status while held %q", status)
			}
			s.detach()
			s.wantEnd("main\n", "exit 7")
		})
	}
}

func TestDetachWithoutEntry(t *testing.T) {
	s := start(t, hwtest.BuildC(t, mainProgram))
	s.detach()
	s.wantEnd("main\n", "exit 7")
}

func TestScript(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh -e\necho \"script $0 $1\"\nkill -TERM $$\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	s := start(t, "script", "argument")
	s.run(AtEntry)
	shell, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	s.wantEntry(shell)
	s.detach()
	s.wantEnd("script "+script+" argument\n", "signal SIGTERM")
}

// constructed builds a program with a library whose constructor is the given code.
func constructed(t *testing.T, constructor string) string {
	t.Helper()
	lib := hwtest.BuildC(t, `
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define say(text) write(1, text "\n", sizeof text)
int library;
static volatile int got;
static void catch(int sig) { got = sig; }
__attribute__((constructor)) static void construct(void) { `+constructor+` }
`, "-shared", "-fPIC")
	return hwtest.BuildC(t, `
#include <unistd.h>
extern int library;
int main(void) { write(1, "main\n", 5); return 7 + library; }
`, lib, "-Wl,--no-as-needed")
}

func TestConstructorsRunBeforeTheEntryPoint(t *testing.T) {
	path := constructed(t, `say("constructor");`)
	s := start(t, path)
	s.wantSilent()
	s.run(AtEntry)
	s.read("constructor\n")
	s.wantSilent()
	s.wantEntry(path)
	s.detach()
	s.wantEnd("main\n", "exit 7")
}

// runAside lets the program run to its entry point while the test does something else, and returns the event.
func (s *started) runAside(ctx context.Context) <-chan Event {
	events := make(chan Event)
	go func() {
		event, err := s.RunToEntry(ctx)
		if err != nil {
			s.t.Error(err)
		}
		events <- event
	}()
	return events
}

func TestSignalsBeforeTheEntryPoint(t *testing.T) {
	path := constructed(t, `signal(SIGUSR1, catch); signal(SIGTRAP, catch); say("waits");
		while (got != SIGUSR1) usleep(1000);
		say("got it");
		while (got != SIGTRAP) usleep(1000);`)
	s := start(t, path)
	events := s.runAside(context.Background())
	s.read("waits\n")
	for _, sig := range []unix.Signal{unix.SIGTSTP, unix.SIGCONT, unix.SIGUSR1} { // a stop must not be for ever
		if err := s.Signal(sig); err != nil {
			t.Fatal(err)
		}
	}
	s.read("got it\n")
	if err := s.Signal(unix.SIGTRAP); err != nil { // not to be taken for the breakpoint
		t.Fatal(err)
	}
	if event := <-events; event != AtEntry {
		t.Fatalf("event %v", event)
	}
	s.wantEntry(path)
	s.detach()
	s.wantEnd("main\n", "exit 7")
}

func TestInterruptBeforeTheEntryPoint(t *testing.T) {
	path := constructed(t, `signal(SIGUSR1, catch); say("waits"); while (!got) usleep(1000); say("got it");`)
	s := start(t, path)
	ctx, cancel := context.WithCancel(context.Background())
	events := s.runAside(ctx)
	s.read("waits\n")
	cancel()
	if event := <-events; event != Interrupted {
		t.Fatalf("event %v", event)
	}
	s.detach()
	if err := s.Signal(unix.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	s.read("got it\n")
	s.wantEnd("main\n", "exit 7") // neither stopped nor trapped
}

// TestInterruptLate interrupts a program that goes to its entry point at the same time, however the two fall together.
func TestInterruptLate(t *testing.T) {
	path := hwtest.BuildC(t, mainProgram)
	seen := map[Event]int{}
	for i := range 60 {
		s := start(t, path)
		ctx, cancel := context.WithCancel(context.Background())
		events := s.runAside(ctx)
		for begin := time.Now(); time.Since(begin) < time.Duration(i)*5*time.Microsecond; { // too short for Sleep
		}
		cancel()
		event := <-events
		seen[event]++
		if event != AtEntry && event != Interrupted {
			t.Errorf("event %v", event)
		}
		s.detach()
		s.wantEnd("main\n", "exit 7")
	}
	t.Logf("events: %v", seen)
}

func TestForkBeforeTheEntryPoint(t *testing.T) {
	s := start(t, constructed(t, `library = fork() == 0 ? 1 : 0; if (!library) waitpid(-1, &got, 0), say("waited");`))
	s.run(AtEntry)
	s.read("main\nwaited\n") // the copy, which has met no breakpoint
	s.detach()
	s.wantEnd("main\n", "exit 7")
}

func TestExecBeforeTheEntryPoint(t *testing.T) {
	path := constructed(t, `if (!getenv("AGAIN")) { setenv("AGAIN", "1", 1); say("again");
		execl("/proc/self/exe", "again", NULL); }`)
	s := start(t, path)
	s.run(Execed)
	s.read("again\n")
	s.run(AtEntry)
	s.wantEntry(path)
	s.detach()
	s.wantEnd("main\n", "exit 7")
}

func TestEndBeforeTheEntryPoint(t *testing.T) {
	s := start(t, constructed(t, `_exit(9);`))
	s.run(Ended)
	s.detach()
	s.wantEnd("", "exit 9")

	s = start(t, constructed(t, `say("waits"); pause();`))
	events := s.runAside(context.Background())
	s.read("waits\n")
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if event := <-events; event != Ended {
		t.Errorf("event %v", event)
	}
	s.wantEnd("", "signal SIGKILL")
	if err := s.Signal(unix.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signal after the end: %v", err)
	}
}

func TestKillWhileHeld(t *testing.T) {
	s := start(t, hwtest.BuildC(t, mainProgram))
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	s.detach()
	s.wantEnd("", "signal SIGKILL")
}

func TestCannotStart(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain := file("plain", "echo x\n", 0o644)
	headless := file("headless", "echo x\n", 0o755)
	orphan := file("orphan", "#!/no/such/interpreter\n", 0o755)
	for _, test := range []struct {
		name, text, hint string
		is               error
	}{
		{"no-such-program-of-xw", `start "no-such-program-of-xw": command not found`, "", nil},
		{dir + "/none", fmt.Sprintf(`start "%s/none": no such file or directory`, dir), "", fs.ErrNotExist},
		{dir, fmt.Sprintf(`start %q: is a directory`, dir), "", unix.EISDIR},
		{plain, fmt.Sprintf(`start %q: permission denied`, plain), "chmod +x " + plain, fs.ErrPermission},
		{headless, fmt.Sprintf(`start %q: exec format error`, headless),
			"if it is a shell script without #!: sh " + headless, unix.ENOEXEC},
		{orphan, fmt.Sprintf(`start %q: its interpreter or dynamic loader: no such file or directory`, orphan), "", fs.ErrNotExist},
	} {
		child, err := Start(Command{Argv: []string{test.name}, Stdin: os.Stdin, Stdout: os.Stderr, Stderr: os.Stderr})
		if err == nil {
			_ = child.Kill()
			t.Errorf("%s was started", test.name)
			continue
		}
		if err.Error() != test.text || test.is != nil && !errors.Is(err, test.is) {
			t.Errorf("error %q, want %q", err, test.text)
		}
		if h, ok := err.(interface{ Hint() string }); !ok || h.Hint() != test.hint {
			t.Errorf("%v: hint is not %q", err, test.hint)
		}
	}
}

// The tests below need a process to start the program from, which is this test program with a task to do.
const taskEnv = "XW_LAUNCH_TEST_TASK"

func TestMain(m *testing.M) {
	task := os.Getenv(taskEnv)
	if task == "" {
		os.Exit(m.Run())
	}
	os.Unsetenv(taskEnv)
	if err := doTask(task, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func doTask(task string, argv []string) error {
	child, err := Start(Command{Argv: argv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr})
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "pid", child.PID())
	if task == "hold" {
		select {}
	}
	if _, err := child.RunToEntry(context.Background()); err != nil {
		return err
	}
	if err := child.Detach(); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "detached")
	child.Wait()
	return nil
}

// TestProgramFindsWhatItWouldHaveHad compares what a program sees when started from here and without.
func TestProgramFindsWhatItWouldHaveHad(t *testing.T) {
	look := `grep -e '^Sig[BI]' -e ^ShdPnd -e ^NoNewPrivs -e ^Seccomp /proc/self/status; cat /proc/self/limits; ls /proc/self/fd | wc -l; ` +
		`umask; pwd; cut -d' ' -f 5,6,19 /proc/self/stat; env -u ` + taskEnv + ` | sort; cat`
	prepare := `ulimit -Sn 77; ulimit -Ss 4096; trap "" HUP INT; umask 027; exec 3</dev/null; exec nice "$@"`
	output := func(task string, argv ...string) string {
		cmd := exec.Command("sh", append([]string{"-c", prepare, "sh"}, argv...)...)
		cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
		if task != "" {
			cmd.Env = append(cmd.Env, taskEnv+"="+task)
		}
		cmd.Stdin = strings.NewReader("input\n")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v", argv, err)
		}
		return string(out)
	}
	// Process group and session are those of the first process.
	mask := func(text string) string {
		lines := strings.Split(text, "\n")
		for i, line := range lines {
			if fields := strings.Fields(line); len(fields) == 3 && fields[0] == fields[1] {
				lines[i] = "a group of its session, nice " + fields[2]
			}
		}
		return strings.Join(lines, "\n")
	}
	want := mask(output("", "sh", "-c", look))
	got := mask(output("run", os.Args[0], "sh", "-c", look))
	if got != want {
		t.Errorf("started here:\n%s\nstarted by a shell:\n%s", got, want)
	}
	for _, part := range []string{`input\n`, `SigIgn:\t[0-9a-f]+3\n`, `a group of its session, nice 10`, `77`} {
		if !regexp.MustCompile(part).MatchString(want) {
			t.Errorf("%q does not match\n%s", part, want)
		}
	}
}

// startTask starts this program with a task, and returns it and the process that it has started.
func startTask(t *testing.T, task string, argv ...string) (tracer *exec.Cmd, pid int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], argv...)
	cmd.Env = append(os.Environ(), taskEnv+"="+task)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	format := "pid %d\n"
	if task != "hold" {
		format += "detached\n"
	}
	if _, err := fmt.Fscanf(stderr, format, &pid); err != nil {
		t.Fatal(err)
	}
	return cmd, pid
}

// endOf waits until the process has ended, if it does so in time.
func endOf(pidfd int, in time.Duration) bool {
	fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	for end := time.Now().Add(in); ; {
		n, err := unix.Poll(fds, max(0, int(time.Until(end).Milliseconds())))
		if !errors.Is(err, unix.EINTR) {
			return n == 1
		}
	}
}

func TestHeldProgramDiesWithUs(t *testing.T) {
	for _, test := range []struct {
		task string
		dies bool
		in   time.Duration // a busy machine takes its time to end a process; one that lives on never ends
	}{{"hold", true, time.Minute}, {"run", false, 500 * time.Millisecond}} {
		tracer, pid := startTask(t, test.task, "sleep", "1000")
		pidfd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(pidfd)
		if err := tracer.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = tracer.Wait() // it was killed
		if dead := endOf(pidfd, test.in); dead != test.dies {
			t.Errorf("task %s: the program died: %v", test.task, dead)
		}
		if !test.dies {
			if err := unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0); err != nil {
				t.Errorf("end the program: %v", err)
			}
		}
	}
}

func TestForwardWithoutTerminal(t *testing.T) {
	if inForeground() {
		t.Skip("runs in the foreground of a terminal")
	}
	s := start(t, "sleep", "1000")
	s.detach()
	if err := s.Forward(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	s.wantEnd("", "signal SIGINT")
}
