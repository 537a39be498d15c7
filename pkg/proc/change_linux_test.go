package proc_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"xw/pkg/proc"
)

func TestLeaderGone(t *testing.T) {
	exe := build(t, filepath.Join(t.TempDir(), "headless"), `
#define _GNU_SOURCE
#include <stdio.h>
#include <pthread.h>
#include <unistd.h>
volatile unsigned long counter = 0x1122334455667788;
static void *body(void *arg) {
	char state = 0;
	while (state != 'Z') {
		FILE *f = fopen("/proc/self/stat", "r");
		if (fscanf(f, "%*d %*s %c", &state) != 1) return 0;
		fclose(f);
	}
	printf("%p %d\n", (void *)&counter, gettid());
	fflush(stdout);
	getchar();
	_exit(0);
}
int main(void) {
	pthread_t t;
	pthread_create(&t, 0, body, 0);
	pthread_exit(0);
}`)
	c := start(t, exec.Command(exe))
	var addr uint64
	var tid int
	if _, err := fmt.Sscanf(c.line, "0x%x %d", &addr, &tid); err != nil {
		t.Fatal(err)
	}
	for _, id := range []int{c.pid(), tid} {
		p := open(t, id)
		if want := map[int]int{tid: tid}[id]; p.PID() != c.pid() || p.GivenTID() != want {
			t.Errorf("Open(%d): PID = %d, GivenTID = %d", id, p.PID(), p.GivenTID())
		}
		if p.Exe().Path != exe || !slices.Equal(p.Argv(), []string{exe}) || p.NSPID() != c.pid() {
			t.Errorf("Open(%d): %+v, argv %q, ns pid %d", id, p.Exe(), p.Argv(), p.NSPID())
		}
		if err := p.Verify(); err != nil {
			t.Error(err)
		}
		wantCounter(t, p, addr)
		tasks, err := p.Tasks()
		if err != nil || len(tasks) != 1 || tasks[0].TID != tid {
			t.Errorf("Tasks = %+v, %v, want %d alone", tasks, err, tid)
		}
		if tids, err := p.TIDs(); err != nil || !slices.Equal(tids, []int{tid}) {
			t.Errorf("TIDs = %v, %v, want %d alone", tids, err, tid)
		}
		maps, err := p.Maps()
		if err != nil {
			t.Fatal(err)
		}
		m := mappingOf(t, maps, addr)
		f, err := p.OpenMapped(m)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		if others, _, err := p.Others([]proc.Range{{Start: addr, End: addr + 8, Prot: proc.ProtWrite}}); others != 0 || err != nil {
			t.Errorf("Others = %d, %v", others, err)
		}
	}
}

func mappingOf(t *testing.T, maps []proc.Mapping, addr uint64) proc.Mapping {
	t.Helper()
	i := slices.IndexFunc(maps, func(m proc.Mapping) bool { return m.Contains(addr) })
	if i < 0 {
		t.Fatalf("0x%x is not mapped", addr)
	}
	return maps[i]
}

func TestExecAndExitAreSeen(t *testing.T) {
	exe := build(t, filepath.Join(t.TempDir(), "again"), `
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv) {
	char to[4096];
	printf("%d\n", getpid());
	fflush(stdout);
	if (scanf("%4095s", to) != 1) return 3;
	execl(to, to, (char *)0);
	return 4;
}`)
	other := exe + "2"
	if b, err := os.ReadFile(exe); err != nil || os.WriteFile(other, b, 0o700) != nil {
		t.Fatal(err)
	}
	for _, next := range []string{exe, other} {
		c := start(t, exec.Command(exe))
		p := open(t, c.pid())
		mm, err := p.HoldMM()
		if err != nil {
			t.Fatal(err)
		}
		defer mm.Close()
		if err := p.Verify(); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(c.stdin, next)
		c.next(t)
		if err := p.Verify(); !errors.Is(err, proc.ErrReplaced) {
			t.Errorf("exec of %s: Verify = %v, want ErrReplaced", filepath.Base(next), err)
		}
		if q := open(t, c.pid()); q.Exe().Path != next || q.Start() != p.Start() {
			t.Errorf("after exec: %+v started %d, was %d", q.Exe(), q.Start(), p.Start())
		}
		c.end()
		if !p.Exited() {
			t.Error("not Exited after the end")
		}
		if err := p.Verify(); !errors.Is(err, proc.ErrExited) {
			t.Errorf("after the end: Verify = %v", err)
		}
		if _, err := p.Tasks(); !errors.Is(err, proc.ErrExited) || !strings.Contains(err.Error(), fmt.Sprintf("/proc/%d/task", c.pid())) {
			t.Errorf("after the end: Tasks: %v", err)
		}
		if _, err := p.Maps(); !errors.Is(err, proc.ErrExited) {
			t.Errorf("after the end: Maps: %v", err)
		}
		if n, err := p.ReadAt(make([]byte, 8), 4096); n != 0 || !errors.Is(err, proc.ErrExited) {
			t.Errorf("after the end: ReadAt = %d, %v", n, err)
		}
	}
}

func TestDeletedAndReplacedProgram(t *testing.T) {
	exe := build(t, filepath.Join(t.TempDir(), "prog"), counterSource)
	want, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	c := start(t, exec.Command(exe))
	for _, replace := range []bool{false, true} {
		if replace {
			err = os.WriteFile(exe, []byte("another program"), 0o700)
		} else {
			err = os.Remove(exe)
		}
		if err != nil {
			t.Fatal(err)
		}
		p := open(t, c.pid())
		if got := p.Exe(); got.Path != exe || !got.Deleted || p.Bits() != 64 {
			t.Errorf("Exe = %+v, bits %d, want %q deleted", got, p.Bits(), exe)
		}
		maps, err := p.Maps()
		if err != nil {
			t.Fatal(err)
		}
		m := mappingOf(t, maps, counterAddr(t, c))
		if !m.Deleted || m.Path != exe {
			t.Errorf("mapping %+v, want %q deleted", m, exe)
		}
		f, err := p.OpenMapped(m)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(want))
		if n, err := f.ReadAt(got, 0); n != len(want) || !slices.Equal(got, want) {
			t.Errorf("the mapping's file reads %d bytes, %v: not the program's %d", n, err, len(want))
		}
		f.Close()
	}
}

func TestNamespaceAndTracer(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("a pid namespace needs root")
	}
	exe := build(t, filepath.Join(t.TempDir(), "first"), counterSource)
	cmd := exec.Command(exe)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	c := start(t, cmd)
	p := open(t, c.pid())
	if p.PID() != c.pid() || p.NSPID() != 1 {
		t.Errorf("PID, NSPID = %d, %d, want %d, 1", p.PID(), p.NSPID(), c.pid())
	}
	if pid, comm := p.TracerPID(); pid != 0 || comm != "" {
		t.Errorf("TracerPID = %d %q", pid, comm)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := syscall.PtraceAttach(c.pid()); err != nil {
		t.Fatal(err)
	}
	defer syscall.PtraceDetach(c.pid())
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(c.pid(), &ws, 0, nil); err != nil {
		t.Fatal(err)
	}
	self, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	tracer, comm := p.TracerPID()
	if want := strings.TrimSpace(string(self)); comm != want || tracer == 0 {
		t.Errorf("TracerPID = %d %q, want this test's thread, %q", tracer, comm, want)
	}
}

func TestAnotherUsersProcess(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("becoming another user needs root")
	}
	exe := build(t, filepath.Join(t.TempDir(), "prog"), counterSource)
	c := start(t, exec.Command(exe))
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The test binary's own directory may be closed to others.
	dir, err := os.MkdirTemp("", "xwproc")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	helper := filepath.Join(dir, "helper")
	b, err := os.ReadFile(self)
	if err == nil {
		err = errors.Join(os.WriteFile(helper, b, 0o755), os.Chmod(dir, fs.FileMode(0o755)))
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(helper)
	cmd.Dir = "/"
	cmd.Env = []string{fmt.Sprintf("XW_TEST_OPEN=%d", c.pid())}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "true ") {
		t.Errorf("as another user: %v, %s", err, out)
	}
}

// TestOverlay has a file whose device in /proc/PID/maps is not the one that stat shows, in a mount namespace that only the
// target is in.
func TestOverlay(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting needs root")
	}
	dir := t.TempDir()
	lower := filepath.Join(dir, "lower")
	if err := os.Mkdir(lower, 0o700); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(build(t, filepath.Join(lower, "prog"), counterSource))
	if err != nil {
		t.Fatal(err)
	}
	mount := `mkdir top all && mount -t tmpfs none top && mkdir top/upper top/work &&
		mount -t overlay none -o lowerdir=lower,upperdir=top/upper,workdir=top/work all`
	trial := exec.Command("/bin/sh", "-c", mount)
	trial.Dir, trial.SysProcAttr = dir, &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if out, err := trial.CombinedOutput(); err != nil {
		t.Skipf("an overlay cannot be mounted here: %v\n%s", err, out)
	}
	cmd := exec.Command("/bin/sh", "-c", "rmdir top all; "+mount+" && exec all/prog")
	cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	c := start(t, cmd)
	p := open(t, c.pid())
	maps, err := p.Maps()
	if err != nil {
		t.Fatal(err)
	}
	m := mappingOf(t, maps, counterAddr(t, c))
	f, err := p.OpenMapped(m)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got := make([]byte, len(want))
	if n, err := f.ReadAt(got, 0); n != len(want) || !slices.Equal(got, want) {
		t.Errorf("the mapping's file reads %d bytes, %v: not the program's %d", n, err, len(want))
	}
	if err := p.Verify(); err != nil {
		t.Error(err)
	}
}
