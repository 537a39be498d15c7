package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"xw/pkg/hwtest"
)

// early stores before main and in main.
const early = `
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
volatile int counter, other;
volatile int *pointer = &other;
__attribute__((constructor)) static void construct(void) { for (int i = 0; i < 10; i++) counter++; }
int main(int argc, char **argv)
{
	for (int i = 0; i < 20; i++) counter++;
	printf("main %d\n", argc);
	fflush(stdout);
	if (argc > 1 && !strcmp(argv[1], "wait")) { getchar(); pause(); }
	return 3;
}
`

// TestCommandFromItsFirstInstruction counts every store of programs of all kinds.
func TestCommandFromItsFirstInstruction(t *testing.T) {
	hwtest.Require(t)
	for _, test := range []struct {
		name, compiler string
		flags          []string
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
			program := hwtest.Compile(t, test.compiler, "main.c", early, append([]string{"-g", "-O1", "-w"}, test.flags...)...)
			s := xwOpen(t, "--watch", "counter", "--", program).end(0)
			s.stopped("target_exited")
			s.complete(0, 30)
			if s.end.Child != "exit 3" {
				t.Errorf("child %q", s.end.Child)
			}
			for i, sample := range s.samples {
				if sample.Value.V != uint64(i+1) {
					t.Fatalf("hit %d has value %v", i, sample.Value)
				}
			}
			if want := map[bool]uint64{true: 32, false: 64}[test.name == "32 bit"]; s.header.Target.Bits != want {
				t.Errorf("%d bits", s.header.Target.Bits)
			}
		})
	}
}

// TestCommandInEveryScope does the same without BPF and in other scopes.
func TestCommandInEveryScope(t *testing.T) {
	hwtest.Require(t)
	program := hwtest.BuildC(t, early)
	for _, way := range ways {
		t.Run(way.scope+" "+way.values, func(t *testing.T) {
			s := xwOpen(t, "--watch", "counter", "--scope", way.scope, "--values", way.values, "--", program).end(0)
			s.stopped("target_exited")
			s.complete(0, 30)
		})
	}
}

// TestCommandRelocation sees the dynamic loader, which runs before the program.
func TestCommandRelocation(t *testing.T) {
	hwtest.Require(t)
	hwtest.RequireC(t, "-pie", "-fPIE")
	program := hwtest.BuildC(t, early, "-pie", "-fPIE")
	s := xwOpen(t, "--watch", "pointer", "--", program).end(0)
	s.complete(0, 1)
	if len(s.samples) != 1 || s.samples[0].Value.V == 0 {
		t.Errorf("samples %+v", s.samples)
	}
}

// withLibrary builds a program with a library that stores 3 times in its constructor and 5 times for main, which itself
// stores 7 times to a variable of its own.
func withLibrary(t *testing.T, compiler string) string {
	t.Helper()
	dir := t.TempDir()
	place := func(name, built string) string {
		path := filepath.Join(dir, name)
		if err := os.Rename(built, path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	lib := place("libstores.so", hwtest.Compile(t, compiler, "lib.c", `
volatile int library;
__attribute__((constructor)) static void construct(void) { for (int i = 0; i < 3; i++) library++; }
void store(void) { for (int i = 0; i < 5; i++) library++; }
`, "-g", "-O1", "-shared", "-fPIC", "-Wl,-soname,libstores.so"))
	return place("uses", hwtest.Compile(t, compiler, "main.c", `
volatile int mine;
void store(void);
int main(void) { for (int i = 0; i < 7; i++) mine++; store(); return 0; }
`, "-g", "-O1", lib, "-Wl,-rpath,"+dir))
}

// TestCommandLibraries arms what only a library has when the program's entry point is reached. glibc has then run the
// constructors, musl runs them later.
func TestCommandLibraries(t *testing.T) {
	hwtest.Require(t)
	for _, test := range []struct {
		compiler string
		library  int
	}{{"cc", 5}, {"musl-gcc", 8}} {
		hwtest.RequireTool(t, test.compiler)
		program := withLibrary(t, test.compiler)
		for _, way := range ways {
			t.Run(test.compiler+" "+way.scope+" "+way.values, func(t *testing.T) {
				s := xwOpen(t, "--watch", "library", "--watch", "mine", "--scope", way.scope, "--values", way.values, "--", program).end(0)
				s.stopped("target_exited")
				for i, w := range s.header.Watches {
					s.complete(i, map[string]int{"library": test.library, "mine": 7}[w.Name])
				}
				if len(s.header.Watches) != 2 {
					t.Errorf("watches %+v", s.header.Watches)
				}
				s = xwOpen(t, "--watch", "libstores.so!library", "--scope", way.scope, "--values", way.values, "--", program).end(0)
				s.complete(0, test.library)
			})
		}
	}
}

// TestCommandScript runs a script, whose program is its interpreter.
func TestCommandScript(t *testing.T) {
	hwtest.Require(t)
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!"+hwtest.BuildC(t, early)+" one\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	o := xwOpen(t, "--watch", "counter", "--", script, "more")
	o.line("main 4") // itself, "one", the script, "more"
	s := o.end(0)
	s.complete(0, 30)
	if s.end.Child != "exit 3" {
		t.Errorf("child %q", s.end.Child)
	}
}

// TestCommandOutput: the command's output goes to standard error, or to a file.
func TestCommandOutput(t *testing.T) {
	hwtest.Require(t)
	program := hwtest.BuildC(t, early)
	xwOpen(t, "--watch", "counter", "--", program, "x").line("main 2")

	dir := t.TempDir()
	path := filepath.Join(dir, "output")
	o := xwOpen(t, "--watch", "counter", "--child-output", path, "--", program)
	o.end(0).complete(0, 30)
	if b, err := os.ReadFile(path); err != nil || string(b) != "main 1\n" {
		t.Errorf("the file holds %q, %v", b, err)
	}
	if len(o.said) != 1 {
		t.Errorf("said %q", o.said)
	}

	link := filepath.Join(dir, "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	xwOpen(t, "--watch", "counter", "--child-output", link, "--", program).refused(1,
		fmt.Sprintf("open output: %q: it is a symbolic link", link), "")
	xwOpen(t, "--watch", "counter", "-o", link, "--", program).refused(1,
		fmt.Sprintf("open output: %q: it is a symbolic link", link), "")
	if b, err := os.ReadFile(path); err != nil || string(b) != "main 1\n" {
		t.Errorf("afterwards the file holds %q, %v", b, err)
	}
}

// TestCommandCannotStart says why.
func TestCommandCannotStart(t *testing.T) {
	hwtest.Require(t)
	xwOpen(t, "--watch", "counter", "--", "no-such-program-of-xw").refused(1, `start "no-such-program-of-xw": command not found`, "")
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	xwOpen(t, "--watch", "counter", "--", plain).refused(1, fmt.Sprintf(`start %q: permission denied`, plain), "chmod +x "+plain)
	program := hwtest.BuildC(t, early)
	xwOpen(t, "--watch", "countre", "--", program).refused(1, `watch "countre": unknown symbol "countre", nearest: prog!counter`,
		"while the command runs, xw-open --pid N --list prints what can be watched")
}

// TestCommandLeftRunning: a stop leaves the command running, and --kill ends it.
func TestCommandLeftRunning(t *testing.T) {
	hwtest.Require(t)
	program := hwtest.BuildC(t, early)
	for _, test := range []struct {
		args  []string
		child string
	}{{nil, "running"}, {[]string{"--kill"}, "signal SIGKILL"}} {
		args := append(test.args, "--watch", "counter", "--max-events", "30", "--", program, "wait")
		cmd := command(t, args...)
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		o := start(t, cmd)
		o.collect()
		pid := o.ready()["pid"]
		if err := cmd.Wait(); err != nil { // the command, if it runs, keeps standard error open
			t.Error(err)
		}
		s := parse(t, <-o.stream)
		s.stopped("max_events")
		if s.end.Child != test.child {
			t.Errorf("child %q, want %q", s.end.Child, test.child)
		}
		if runs(t, pid) != (test.child == "running") {
			t.Errorf("--kill %v: the command runs: %v", test.args, runs(t, pid))
		}
		stdin.Close()
		kill(t, pid)
	}
}

// runs reports whether a process lives.
func runs(t *testing.T, pid string) bool {
	t.Helper()
	b, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !strings.Contains(string(b), ") Z ")
}

func kill(t *testing.T, pid string) {
	t.Helper()
	var n int
	if _, err := fmt.Sscan(pid, &n); err != nil {
		t.Fatal(err)
	}
	_ = syscall.Kill(n, syscall.SIGKILL) // it may have ended
}

// catcher ends with the number of the signal that it was sent.
const catcher = `
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
volatile int counter;
static void caught(int sig) { _exit(sig); }
int main(void)
{
	signal(SIGINT, caught); signal(SIGTERM, caught); signal(SIGHUP, caught);
	counter = 1;
	printf("waits\n");
	fflush(stdout);
	for (int i = 0; i < 600; i++) usleep(100000);
}
`

// TestCommandSignals passes SIGINT and SIGTERM on to the command.
func TestCommandSignals(t *testing.T) {
	hwtest.Require(t)
	program := hwtest.BuildC(t, catcher)
	for _, test := range []struct {
		signal syscall.Signal
		child  string
	}{{syscall.SIGINT, "exit 2"}, {syscall.SIGTERM, "exit 15"}, {syscall.SIGHUP, "running"}} {
		cmd := command(t, "--watch", "counter", "--", program)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no terminal, which would send the signal to both
		o := start(t, cmd)
		o.collect()
		pid := o.ready()["pid"]
		o.line("waits")
		o.signal(test.signal)
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		s := parse(t, <-o.stream)
		s.stopped("interrupted")
		s.complete(0, 1)
		if s.end.Child != test.child {
			t.Errorf("%v: child %q, want %q", test.signal, s.end.Child, test.child)
		}
		kill(t, pid)
	}
}

// TestCommandWhenXWOpenIsKilled: before it is watched the command dies with xw-open, then it lives on.
func TestCommandWhenXWOpenIsKilled(t *testing.T) {
	hwtest.Require(t)
	lib := hwtest.BuildC(t, `
#include <stdio.h>
#include <unistd.h>
volatile int library;
__attribute__((constructor)) static void construct(void) { printf("pid=%d\n", getpid()); fflush(stdout); getchar(); }
`, "-shared", "-fPIC")
	held := hwtest.BuildC(t, "volatile int counter; int main(void) { return 0; }\n", "-Wl,--no-as-needed", lib)
	watched := hwtest.BuildC(t, early)
	for _, test := range []struct {
		name  string
		watch string
		argv  []string
		lives bool
	}{{"held", "library", []string{held}, false}, {"watched", "counter", []string{watched, "wait"}, true}} {
		t.Run(test.name, func(t *testing.T) {
			cmd := command(t, append([]string{"--watch", test.watch, "--"}, test.argv...)...)
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			defer stdin.Close()
			o := start(t, cmd)
			o.collect()
			var pid string
			if test.lives {
				pid = o.ready()["pid"]
				o.line("main")
			} else {
				pid = strings.TrimPrefix(o.line("pid="), "pid=")
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // it was killed
			if !test.lives {
				for runs(t, pid) { // until the kernel has ended it
					time.Sleep(time.Millisecond)
				}
				return
			}
			time.Sleep(100 * time.Millisecond) // the time to die, if it were to
			if !runs(t, pid) {
				t.Error("the command died")
			}
			kill(t, pid)
		})
	}
}

// TestCommandInterruptedBeforeAttach ends a command that has not come to its entry point.
func TestCommandInterruptedBeforeAttach(t *testing.T) {
	hwtest.Require(t)
	lib := hwtest.BuildC(t, `
#include <stdio.h>
#include <unistd.h>
volatile int library;
__attribute__((constructor)) static void construct(void) { printf("pid=%d\n", getpid()); fflush(stdout); pause(); }
`, "-shared", "-fPIC")
	cmd := command(t, "--watch", "library", "--", hwtest.BuildC(t, "int main(void) { return 0; }\n", "-Wl,--no-as-needed", lib))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	o := start(t, cmd)
	o.collect()
	pid := strings.TrimPrefix(o.line("pid="), "pid=")
	o.signal(syscall.SIGINT)
	if code := o.code(); code != 1 || o.said[len(o.said)-1] != "xw-open: interrupted by signal: interrupt" {
		t.Errorf("exit %d, said %q", code, o.said)
	}
	if runs(t, pid) {
		t.Error("the command runs unwatched")
	}
}

// TestCommandSeesWhatItWouldHave compares the limits and signals of a command with those it has without xw-open.
func TestCommandSeesWhatItWouldHave(t *testing.T) {
	hwtest.Require(t)
	look := `grep ^Sig[BI] /proc/self/status; ulimit -Sa; ulimit -Ha; pwd; umask; ls /proc/self/fd`
	prepare := func(args ...string) []string {
		return append([]string{"-c", `ulimit -Sn 77; ulimit -Ss 4096; trap "" HUP; umask 027; exec "$@"`, "sh"}, args...)
	}
	cmd := exec.Command("sh", prepare("sh", "-c", look)...)
	cmd.Stdin = strings.NewReader("")
	want, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	output := filepath.Join(t.TempDir(), "output")
	self := command(t)
	cmd = exec.Command("sh", prepare(self.Path, "--watch", "environ", "--child-output", output, "--", "sh", "-c", look)...)
	cmd.Env = self.Env
	cmd.Stdin = strings.NewReader("")
	o := start(t, cmd)
	o.collect()
	o.end(0).stopped("target_exited")
	got, err := os.ReadFile(output)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) || !bytes.Contains(want, []byte(" 77\n")) {
		t.Errorf("with xw-open:\n%s\nwithout:\n%s", got, want)
	}
}

// TestCommandStatus has the command's end in the end record.
func TestCommandStatus(t *testing.T) {
	hwtest.Require(t)
	program := hwtest.BuildC(t, `
#include <signal.h>
#include <stdlib.h>
volatile int counter;
int main(int argc, char **argv) { counter = 1; raise(atoi(argv[1])); return 0; }
`)
	for sig, child := range map[string]string{"0": "exit 0", "9": "signal SIGKILL", "11": "signal SIGSEGV", "36": "signal 36"} {
		s := xwOpen(t, "--watch", "counter", "--", program, sig).end(0)
		s.stopped("target_exited")
		s.complete(0, 1)
		if s.end.Child != child {
			t.Errorf("signal %s: child %q, want %q", sig, s.end.Child, child)
		}
	}
}
