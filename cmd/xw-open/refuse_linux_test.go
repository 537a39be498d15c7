package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"xw/pkg/hwtest"
)

const grammar = "a watch is [NAME=]PLACE{->OFFSET}[:LEN][:ACCESS]; PLACE is 0xADDR, SYMBOL, MODULE!SYMBOL or MODULE+OFFSET, each with an " +
	"optional +OFFSET or -OFFSET; LEN is a number of bytes; ACCESS is w, rw, r or x"

const grant = `run xw-open with sudo, or sudo setcap cap_perfmon,cap_bpf,cap_sys_ptrace+ep "$(command -v xw-open)"`

// TestRefusesUsage needs no watchpoints: the command line is to blame, or the target cannot be one.
func TestRefusesUsage(t *testing.T) {
	w := startWorker(t)
	pid := w.pid()
	list := "xw-open --pid " + pid + " --list [PATTERN] prints what can be watched by name"
	for _, test := range []struct {
		name    string
		args    []string
		code    int
		message string
		hint    string
	}{
		{"no watch", []string{"--pid", pid}, 2, "nothing to watch: give --watch WATCH", list},
		{"no watch of a command", []string{"--", "true"}, 2, "nothing to watch: give --watch WATCH", "xw-open --pid N --list [PATTERN] prints what can be watched by name"},
		{"no target", []string{"--watch", "counter"}, 2, "nothing to watch: give --pid N, or -- CMD [ARG...]", "xw-open --help"},
		{"two targets", []string{"--pid", pid, "--watch", "counter", "--", "true"}, 2, "--pid and -- CMD exclude each other: \"true\" was taken for CMD", "xw-open --help"},
		{"forgot --watch", []string{"--pid", pid, "counter"}, 2, "--pid and -- CMD exclude each other: \"counter\" was taken for CMD", "xw-open --help"},
		{"no unit", []string{"--pid", pid, "--watch", "counter", "--duration", "5"}, 2, "--duration: expected a duration such as 5s, 300ms or 1h30m, but got \"5\"", "xw-open --help"},
		{"address without 0x", []string{"--pid", pid, "--watch", "55d0c0ffee00"}, 1, `watch "55d0c0ffee00": unknown symbol "55d0c0ffee00"`, "an address begins with 0x: 0x55d0c0ffee00"},
		{"field", []string{"--pid", pid, "--watch", "bytes.first"}, 1, `watch "bytes.first": unknown symbol "bytes.first" ... `,
			"a field or element is bytes+OFFSET: ptype /o of gdb, or pahole, print the offsets"},
		{"element", []string{"--pid", pid, "--watch", "bytes[3]"}, 1, `watch "bytes[3]": unknown symbol "bytes[3]" ... `,
			"a field or element is bytes+OFFSET: ptype /o of gdb, or pahole, print the offsets"},
		{"length 0", []string{"--pid", pid, "--watch", "counter:0"}, 2, `watch "counter:0": length 0: the least is 1 byte`, grammar},
		{"access", []string{"--pid", pid, "--watch", "counter:4:q"}, 2, `watch "counter:4:q": "q" is neither a length nor one of w, rw, r, x`, grammar},
		{"nothing", []string{"--pid", pid, "--watch", ""}, 2, `watch "": ... `, grammar},
		{"hop", []string{"--pid", pid, "--watch", "counter->"}, 2, `watch "counter->": ... `, grammar},
		{"no such pid", []string{"--pid", "4194304", "--watch", "counter"}, 1, "open process: 4194304: no such process", ""},
		{"pid 2^40", []string{"--pid", "1099511627776", "--watch", "counter"}, 2, "--pid: not a process id", "xw-open --help"},
		{"kernel thread", []string{"--pid", "2", "--watch", "counter"}, 1, "open process: 2: kthreadd is a kernel thread, it has no memory of its own", ""},
		{"unknown symbol", []string{"--pid", pid, "--watch", "countr"}, 1, `watch "countr": unknown symbol "countr", nearest: prog!counter`,
			"xw-open --pid " + pid + " --list prints what can be watched by name; a local variable has only an address, 0xADDR"},
		{"unknown module", []string{"--pid", pid, "--watch", "libx.so!counter"}, 1, `watch "libx.so!counter": unknown module "libx.so" ... `, "/proc/" + pid + "/maps has the mapped files"},
		{"many slots", []string{"--pid", pid, "--watch", "counter", "--watch", "bytes:24", "--watch", "0x1001:3"}, 1,
			"too many watchpoints: 6 needed, x86 has 4 per thread: counter 1 (8 bytes at 0x ... ), bytes 3 (24 bytes at 0x ... ), 0x1001 2 (3 bytes at 0x1001)",
			"a slot covers 1, 2, 4 or 8 bytes at a multiple of its size; watch fewer or shorter places"},
		{"kernel address", []string{"--pid", pid, "--watch", "0xffffffff81000000"}, 1,
			`watch "0xffffffff81000000": 0xffffffff81000007: in the kernel's half of the address space, only the process's own memory can be watched`, ""},
		{"keep alone", []string{"--pid", pid, "--watch", "counter", "-o", "f", "--keep", "3"}, 2, "--keep needs --rotate SIZE", "xw-open --help"},
		{"keep none", []string{"--pid", pid, "--watch", "counter", "-o", "f", "--rotate", "2000000", "--keep", "0"}, 2, "--keep: must be between 1 and 1048576", "xw-open --help"},
		{"rotate alone", []string{"--pid", pid, "--watch", "counter", "--rotate", "2000000"}, 2, "--rotate needs -o FILE", "xw-open --help"},
		{"kill without a command", []string{"--pid", pid, "--watch", "counter", "--kill"}, 2, "--kill and --child-output need -- CMD", "xw-open --help"},
		{"ring size", []string{"--pid", pid, "--watch", "counter", "--ring-size", "5000"}, 2, "--ring-size: must be a power of two between a page and 1 GiB", "xw-open --help"},
		{"scope", []string{"--pid", pid, "--watch", "counter", "--scope", "all"}, 2, "--scope must be one of ... ", "xw-open --help"},
		{"list of a command", []string{"--list", "--", "true"}, 2, "--list needs --pid N", "xw-open --help"},
	} {
		t.Run(test.name, func(t *testing.T) {
			xwOpen(t, test.args...).refused(test.code, test.message, test.hint)
		})
	}
}

// TestRefusesAmbiguous lists what a name may mean.
func TestRefusesAmbiguous(t *testing.T) {
	lib := hwtest.BuildC(t, "int twice = 1;\n", "-shared", "-fPIC", "-Wl,-soname,libtwice.so")
	path := filepath.Join(filepath.Dir(lib), "libtwice.so")
	if err := os.Rename(lib, path); err != nil {
		t.Fatal(err)
	}
	w := hwtest.Start(t, hwtest.BuildC(t, `
#include <stdio.h>
#include <dlfcn.h>
static int twice = 2;
int main(int argc, char **argv) {
	dlopen(argv[1], RTLD_NOW);
	printf("ready twice=%p\n", &twice); fflush(stdout);
	getchar();
}
`, "-ldl"), path)
	xwOpen(t, "--pid", fmt.Sprint(w.PID), "--watch", "twice").refused(1,
		fmt.Sprintf(`watch "twice": "twice" is ambiguous: prog!twice at %#x, libtwice.so!twice at 0x ... `, w.Uint("twice")),
		"name the module: MODULE!SYMBOL, as in prog!twice")
}

func TestRefusesZombie(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	for { // until it has ended; nobody takes its exit status before the test ends
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), ") Z ") {
			break
		}
	}
	pid := fmt.Sprint(cmd.Process.Pid)
	xwOpen(t, "--pid", pid, "--watch", "counter").refused(1,
		"open process: "+pid+": a zombie: it has ended and waits for its parent to take its exit status", "")
}

// TestLeaderless watches a process whose first thread has ended, which looks like a zombie and is none.
func TestLeaderless(t *testing.T) {
	hwtest.Require(t)
	for _, way := range ways {
		t.Run(way.scope+" "+way.values, func(t *testing.T) {
			w := startWorker(t, "leaderless")
			w.do("n 1") // the thread is there; give the first one the time to end
			for {
				b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", w.PID))
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(string(b), ") Z ") {
					break
				}
			}
			o := xwOpen(t, "--pid", w.pid(), "--watch", "counter", "--scope", way.scope, "--values", way.values)
			o.ready()
			w.do("n 100")
			w.Send("q 0")
			s := o.end(0)
			s.stopped("target_exited")
			s.complete(0, 100)
		})
	}
}

func TestRefusesTerminal(t *testing.T) {
	hwtest.RequireTool(t, "script")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("script", "-qec", self+" --pid 1 --watch counter", "/dev/null")
	cmd.Env = append(os.Environ(), runAsCommand+"=1", "GORACE=atexit_sleep_ms=0")
	out, err := cmd.CombinedOutput()
	want := "xw-open: standard output is a terminal, and the stream is binary\r\nhint: xw-open ... | xw-decode | xw-report, or xw-open ... -o trace.xw\r\n"
	if cmd.ProcessState.ExitCode() != 2 || string(out) != want {
		t.Errorf("%v, printed %q", err, out)
	}
}

// setSysctl changes a kernel setting until the test ends.
func setSysctl(t *testing.T, name, value string) {
	t.Helper()
	path := "/proc/sys/kernel/" + name
	old, err := os.ReadFile(path)
	if err != nil {
		t.Skipf("needs the setting %s: %v", name, err)
	}
	if err := os.WriteFile(path, []byte(value), 0); err != nil {
		t.Skipf("needs to change the setting %s: %v", name, err)
	}
	t.Cleanup(func() {
		if err := os.WriteFile(path, old, 0); err != nil {
			t.Errorf("restore %s: %v", name, err)
		}
	})
}

// asNobody starts a worker, and prepares xw-open, as an ordinary user.
func asNobody(t *testing.T) (w target, open func(args ...string) *exec.Cmd) {
	t.Helper()
	user, self, copies := forNobody(t, hwtest.BuildC(t, worker))
	cmd := exec.Command(copies[0])
	cmd.SysProcAttr = user
	return target{hwtest.StartCmd(t, cmd)}, func(args ...string) *exec.Cmd {
		cmd := command(t, args...)
		cmd.Path, cmd.Dir, cmd.SysProcAttr = self, "/", user
		return cmd
	}
}

func collected(t *testing.T, cmd *exec.Cmd) *opened {
	t.Helper()
	o := start(t, cmd)
	o.collect()
	return o
}

// TestUnprivileged: an ordinary user watches a process of his own, and is told what another one's takes.
func TestUnprivileged(t *testing.T) {
	hwtest.Require(t)
	w, open := asNobody(t)
	setSysctl(t, "perf_event_paranoid", "2")
	pid := w.pid()
	for _, scope := range []string{"auto", "inherit", "thread"} {
		o := collected(t, open("--pid", pid, "--watch", "counter", "--scope", scope))
		if r := o.ready(); r["values"] != "off" || r["kernel"] != "off" || scope == "auto" && r["scope"] != "inherit" {
			t.Errorf("scope %s: ready %v", scope, r)
		}
		w.do("n 100")
		o.signal(syscall.SIGTERM)
		s := o.end(0)
		s.stopped("interrupted")
		s.complete(0, 100)
	}
	collected(t, open("--pid", pid, "--watch", "counter", "--scope", "cpu")).refused(1,
		"permission: open task records: tid=-1 cpu=0: permission denied (EACCES, perf_event_paranoid is 2): it takes CAP_PERFMON",
		"scope cpu watches whole CPUs; --scope inherit takes no privilege on one's own processes; else "+grant)
	collected(t, open("--pid", pid, "--watch", "counter", "--kernel", "on")).refused(1,
		"permission: open watchpoint: tid="+pid+" cpu=-1 addr=0x ... len=8 access=w: permission denied (EACCES, perf_event_paranoid is 2): it takes CAP_PERFMON",
		"hits made by the kernel are left out with --kernel off; else "+grant+", or sudo sysctl kernel.perf_event_paranoid=1")
	collected(t, open("--pid", pid, "--watch", "counter", "--values", "bpf")).refused(1,
		"read values with BPF: permission: load BPF programs: operation not permitted (EPERM, perf_event_paranoid is 2): it takes CAP_BPF and CAP_PERFMON", grant)

	roots := startWorker(t)
	foreign := "the process is another user's, or has changed its user: " + grant
	for _, level := range []string{"2", "3", "4"} {
		setSysctl(t, "perf_event_paranoid", level)
		collected(t, open("--pid", roots.pid(), "--watch", "counter")).refused(1,
			fmt.Sprintf("permission: look at the target: open process: %d: open /proc/%d/maps: permission denied (EACCES, perf_event_paranoid is %s): it takes CAP_PERFMON and CAP_SYS_PTRACE",
				roots.PID, roots.PID, level), foreign)
	}
	collected(t, open("--pid", roots.pid(), "--list")).refused(1, "permission: look at the target: open process: ... ", foreign)
}

// TestCapabilities watches another user's process with the capabilities that the hint names, and without being root.
func TestCapabilities(t *testing.T) {
	hwtest.Require(t)
	_, open := asNobody(t)
	w := startWorker(t)
	cmd := open("--pid", w.pid(), "--watch", "counter:rw")
	const capSysPtrace, capPerfmon, capBPF = 19, 38, 39 // linux/capability.h
	user := *cmd.SysProcAttr
	user.AmbientCaps = []uintptr{capSysPtrace, capPerfmon, capBPF}
	cmd.SysProcAttr = &user
	o := collected(t, cmd)
	if r := o.ready(); r["values"] != "bpf" || r["kernel"] != "on" || r["scope"] != "cpu" {
		t.Errorf("ready %v", r)
	}
	w.do("n 100")
	o.signal(syscall.SIGTERM)
	s := o.end(0)
	s.stopped("interrupted")
	if s.report == nil || !s.report.Complete || s.report.Watches[0].Hits < 100 || s.report.Watches[0].LastValue.V != 100 {
		t.Errorf("report %+v", s.report)
	}
}

func TestLockedMemory(t *testing.T) {
	hwtest.Require(t)
	w, open := asNobody(t)
	limited := func(kib string, args ...string) *exec.Cmd {
		cmd := open(args...)
		cmd.Args = append([]string{"sh", "-c", "ulimit -l " + kib + `; exec "$@"`, "sh", cmd.Path}, args...)
		cmd.Path = "/bin/sh"
		return cmd
	}
	setSysctl(t, "perf_event_mlock_kb", "68") // per CPU and user
	o := collected(t, limited("0", "--pid", w.pid(), "--watch", "counter"))
	o.ready()
	w.do("n 100")
	o.signal(syscall.SIGTERM)
	s := o.end(0)
	s.complete(0, 100)
	if s.header.RingSize != 64<<10 {
		t.Errorf("rings of %d bytes", s.header.RingSize)
	}
	setSysctl(t, "perf_event_mlock_kb", "0")
	collected(t, limited("4", "--pid", w.pid(), "--watch", "counter")).refused(1,
		"map rings: even one page for each of ... CPUs is refused: operation not permitted",
		"locked memory is limited to perf_event_mlock_kb (0 KiB) per CPU and RLIMIT_MEMLOCK (4 KiB): end other perf sessions, or raise the limit (ulimit -l)")
}

func TestDescriptorLimit(t *testing.T) {
	hwtest.Require(t)
	w := startWorker(t)
	w.do("t 100")
	limited := func(files string, args ...string) *exec.Cmd {
		cmd := command(t)
		cmd.Args = append([]string{"sh", "-c", "ulimit " + files + `; exec "$@"`, "sh", cmd.Path, "--pid", w.pid(), "--watch", "counter"}, args...)
		cmd.Path = "/bin/sh"
		return cmd
	}
	hint := "raise the limit of open files (ulimit -n), or use --scope cpu, which needs a few per CPU"
	collected(t, limited("-n 200", "--scope", "inherit")).refused(1,
		"open watchpoints: 101 threads x ... CPUs x (1 slots + 1) + ... others = ... descriptors, and RLIMIT_NOFILE is 200: too many", hint)
	collected(t, limited("-n 12", "--scope", "cpu")).refused(1, "open descriptors: RLIMIT_NOFILE is 12: ... : too many open files", hint)

	// A soft limit is no limit.
	for _, scope := range []string{"inherit", "thread", "cpu"} {
		o := collected(t, limited("-Sn 50", "--scope", scope))
		if r := o.ready(); r["threads"] != "101" {
			t.Errorf("scope %s: ready %v", scope, r)
		}
		w.do("n 100")
		o.signal(syscall.SIGTERM)
		o.end(0).complete(0, 100)
	}
}

// debugger traces a process and sets as many hardware watchpoints on it as it is told, by ptrace(2).
const debugger = `
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

int main(int argc, char **argv)
{
	int pid = atoi(argv[1]), n = atoi(argv[2]), status;
	unsigned long addr = strtoul(argv[3], 0, 0), control = 0;
	if (ptrace(PTRACE_ATTACH, pid, 0, 0) || waitpid(pid, &status, 0) != pid) return 1;
	for (int i = 0; i < n; i++) {
		control |= 1ul << 2 * i | 0xdul << (16 + 4 * i); /* local, writes, 4 bytes */
		if (ptrace(PTRACE_POKEUSER, pid, offsetof(struct user, u_debugreg[i]), addr)) return 2;
	}
	if (ptrace(PTRACE_POKEUSER, pid, offsetof(struct user, u_debugreg[7]), control)) return 3;
	if (ptrace(PTRACE_CONT, pid, 0, 0)) return 4;
	printf("ready pid=%d\n", pid);
	fflush(stdout);
	getchar();
}
`

// TestSlotsTaken: a debugger holds slots of the target. The refusal has the arithmetic and names the debugger.
func TestSlotsTaken(t *testing.T) {
	hwtest.Require(t)
	program := hwtest.BuildC(t, debugger)
	for _, test := range []struct {
		held           int
		watches        []string
		scope, message string
	}{
		{4, []string{"counter"}, "inherit", "tid=PID cpu=-1 addr=0x ... len=8 access=w: no space left on device (ENOSPC, perf_event_paranoid is ... ): the watches need 1 slots, x86 has 4 per thread, and others hold 4 of them; the target is traced by prog (pid DEBUGGER)"},
		{3, []string{"counter", "bytes:8"}, "inherit", "tid=PID cpu=0 addr=0x ... len=8 access=w: no space left on device (ENOSPC, perf_event_paranoid is ... ): the watches need 2 slots, x86 has 4 per thread, and others hold 3 of them; the target is traced by prog (pid DEBUGGER)"},
		{3, []string{"counter", "bytes:8"}, "thread", "tid=PID cpu=-1 addr=0x ... len=8 access=w: no space left on device (ENOSPC, perf_event_paranoid is ... ): the watches need 2 slots, x86 has 4 per thread, and others hold 3 of them; the target is traced by prog (pid DEBUGGER)"},
		{3, []string{"counter", "bytes:8"}, "cpu", "every task cpu=0 addr=0x ... len=8 access=w: no space left on device (ENOSPC, perf_event_paranoid is ... ): the watches need 2 slots, x86 has 4 per thread, and others hold 3 of them; the target is traced by prog (pid DEBUGGER)"},
	} {
		t.Run(fmt.Sprintf("%d %s", test.held, test.scope), func(t *testing.T) {
			w := startWorker(t)
			tracer := hwtest.Start(t, program, w.pid(), fmt.Sprint(test.held), fmt.Sprintf("%#x", w.Uint("counter")+64))
			args := []string{"--pid", w.pid(), "--scope", test.scope}
			for _, watch := range test.watches {
				args = append(args, "--watch", watch)
			}
			hint := "watch fewer slots, or detach the debugger or end the perf that holds them"
			if test.scope == "cpu" {
				hint = "in scope cpu the watchpoints that a debugger has on any process count: --scope inherit, watch fewer slots, or end what holds them"
			}
			message := strings.NewReplacer("PID", w.pid(), "DEBUGGER", fmt.Sprint(tracer.PID)).Replace(test.message)
			xwOpen(t, args...).refused(1, "open watchpoint: "+message, hint)

			// What is left can be watched.
			if test.held < 4 {
				o := xwOpen(t, "--pid", w.pid(), "--scope", test.scope, "--watch", "counter")
				o.ready()
				w.do("n 100")
				o.signal(syscall.SIGTERM)
				o.end(0).complete(0, 100)
			}
		})
	}
}

// TestSlotsTakenElsewhere: a debugger that holds slots of another process does not keep scope auto from watching.
func TestSlotsTakenElsewhere(t *testing.T) {
	hwtest.Require(t)
	w, other := startWorker(t), startWorker(t)
	hwtest.Start(t, hwtest.BuildC(t, debugger), other.pid(), "3", fmt.Sprintf("%#x", other.Uint("counter")+64))
	o := xwOpen(t, "--pid", w.pid(), "--watch", "counter", "--watch", "bytes:8")
	if r := o.ready(); r["scope"] != "inherit" || r["values"] != "bpf" {
		t.Errorf("ready %v", r)
	}
	w.do("n 100")
	w.do("b 1")
	o.signal(syscall.SIGTERM)
	s := o.end(0)
	s.complete(0, 100)
	if want := "scope cpu is not permitted: open watchpoint: every task cpu=0"; !strings.HasPrefix(s.header.ScopeReason, want) {
		t.Errorf("reason %q", s.header.ScopeReason)
	}
}
