package proc_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"xw/pkg/proc"
)

// TestMain answers as a helper process for the tests that need another user or namespace.
func TestMain(m *testing.M) {
	if pid := os.Getenv("XW_TEST_OPEN"); pid != "" {
		id, _ := strconv.Atoi(pid)
		_, err := proc.Open(id)
		fmt.Printf("%t %v\n", errors.Is(err, fs.ErrPermission), err)
		return
	}
	os.Exit(m.Run())
}

// child is a running program that prints one line when it is ready and lives until its stdin is closed.
type child struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   *bufio.Scanner
	line  string // what it printed
}

func build(t *testing.T, exe, source string, flags ...string) string {
	t.Helper()
	src := filepath.Join(t.TempDir(), "main.c")
	if err := os.WriteFile(src, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-pthread", "-o", exe, src}, flags...)
	if out, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
		if slices.Contains(flags, "-m32") {
			t.Skipf("cc -m32 does not work here: %s", out)
		}
		t.Fatalf("cc %q: %v\n%s", args, err, out)
	}
	return exe
}

func start(t *testing.T, cmd *exec.Cmd) *child {
	t.Helper()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: cmd, stdin: stdin, out: bufio.NewScanner(stdout)}
	t.Cleanup(c.end)
	c.next(t)
	return c
}

func (c *child) next(t *testing.T) {
	t.Helper()
	if !c.out.Scan() {
		t.Fatalf("child printed nothing: %v", c.out.Err())
	}
	c.line = c.out.Text()
}

func (c *child) pid() int { return c.cmd.Process.Pid }

func (c *child) end() {
	c.stdin.Close()
	c.cmd.Process.Kill()
	c.cmd.Wait()
}

func open(t *testing.T, id int) *proc.Process {
	t.Helper()
	p, err := proc.Open(id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

const counterSource = `
#include <stdio.h>
volatile unsigned long counter = 0x1122334455667788;
int main(void) {
	printf("%p\n", (void *)&counter);
	fflush(stdout);
	return getchar() == 'x';
}`

func counterAddr(t *testing.T, c *child) uint64 {
	t.Helper()
	var addr uint64
	if _, err := fmt.Sscanf(c.line, "0x%x", &addr); err != nil {
		t.Fatalf("child printed %q: %v", c.line, err)
	}
	return addr
}

func wantCounter(t *testing.T, p *proc.Process, addr uint64) {
	t.Helper()
	var b [8]byte
	if n, err := p.ReadAt(b[:], int64(addr)); n != 8 || err != nil {
		t.Fatalf("ReadAt = %d, %v", n, err)
	}
	if got := binary.LittleEndian.Uint64(b[:]); got != 0x1122334455667788 {
		t.Errorf("counter = %#x", got)
	}
}

func TestIdentity(t *testing.T) {
	exe := build(t, filepath.Join(t.TempDir(), "a name (deleted)"), counterSource)
	cmd := exec.Command(exe, "one", "two words")
	c := start(t, cmd)
	p := open(t, c.pid())
	if p.PID() != c.pid() || p.GivenTID() != 0 {
		t.Errorf("PID = %d, GivenTID = %d, want %d, 0", p.PID(), p.GivenTID(), c.pid())
	}
	if got := p.Exe(); got.Path != exe || got.Deleted {
		t.Errorf("Exe = %+v, want path %q, not deleted", got, exe)
	}
	if want := "a name (deleted)"[:15]; p.Comm() != want {
		t.Errorf("Comm = %q, want %q", p.Comm(), want)
	}
	if want := []string{exe, "one", "two words"}; !slices.Equal(p.Argv(), want) {
		t.Errorf("Argv = %q, want %q", p.Argv(), want)
	}
	if p.Bits() != 64 {
		t.Errorf("Bits = %d", p.Bits())
	}
	if p.Status().UID != os.Getuid() || p.Status().EUID != os.Geteuid() {
		t.Errorf("Status = %+v", p.Status())
	}
	if err := p.Verify(); err != nil {
		t.Errorf("Verify: %v", err)
	}
	wantCounter(t, p, counterAddr(t, c))
}

func TestNotAProcess(t *testing.T) {
	zombie := exec.Command("true")
	if err := zombie.Start(); err != nil {
		t.Fatal(err)
	}
	defer zombie.Wait()
	const pPid, wexited, wnowait = 1, 4, 0x01000000
	_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, pPid, uintptr(zombie.Process.Pid), 0, wexited|wnowait, 0, 0)
	if errno != 0 {
		t.Fatalf("waitid: %v", errno)
	}
	tests := []struct {
		id   int
		want error
	}{
		{0, proc.ErrNoProcess},
		{-3, proc.ErrNoProcess},
		{1 << 30, proc.ErrNoProcess},
		{2, proc.ErrKernelThread},
		{zombie.Process.Pid, proc.ErrZombie},
	}
	for _, tt := range tests {
		p, err := proc.Open(tt.id)
		if p != nil || !errors.Is(err, tt.want) {
			t.Errorf("Open(%d) = %v, %v, want %v", tt.id, p, err, tt.want)
		}
		if err != nil && !strings.Contains(err.Error(), fmt.Sprint(tt.id)) {
			t.Errorf("Open(%d) does not name it: %v", tt.id, err)
		}
	}
}
