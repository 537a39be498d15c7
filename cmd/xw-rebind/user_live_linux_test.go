package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"xw/pkg/hwtest"
)

// nobody is a user without privileges, for programs started by root.
func nobody() *syscall.SysProcAttr {
	const id = 65534
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id}}
}

// shared copies a program to where every user may run it.
func shared(t testing.TB, program string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "xw-rebind-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	b, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, filepath.Base(program))
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// blindfold runs its arguments as a program that may read no other process's memory, as where Yama's ptrace_scope forbids
// it, and may do all else: process_vm_readv(2) is refused, and so is a pread(2) at an offset that only /proc/PID/mem has.
const blindfold = `#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pread64, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[3]) + 4),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof code / sizeof *code, code};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		return 99;
	execv(argv[1], argv + 1);
	return 98;
}
`

// TestForbidden: where the pointer may not be read, that is said, with what to do about it, and the leaf counts as blind.
// Where the BPF program sees the pointer being written, the leaf is found all the same.
func TestForbidden(t *testing.T) {
	hwtest.Require(t)
	hwtest.RequireRoot(t)
	wrapper := shared(t, hwtest.BuildC(t, blindfold))
	program := shared(t, hwtest.BuildC(t, puppetProgram))
	for _, values := range []string{"bpf", "off"} {
		t.Run("values "+values, func(t *testing.T) {
			s := setup{wrapper: []string{wrapper}}
			if values == "off" {
				s.user = nobody()
			}
			cmd := exec.Command(program, "2")
			cmd.SysProcAttr = s.user
			p := startPuppetCmd(t, cmd)
			object := p.list()[0]
			s.args = []string{"--pid", p.pid(), "--watch", "hp=anchor->0x28:4", "--values", values}
			pipe := startPipeline(t, s)
			pipe.ready()
			p.do(0, "store %#x 4 1 3", object+field) // not seen
			other := p.alloc(0x80)
			moved := p.point(1, p.anchor, other)
			if values == "bpf" {
				pipe.bound(1, other+field, moved.from)
			} else { // xw-rebind asks, in vain
				pipe.bound(0, p.anchor, moved.from)
			}
			p.do(0, "store %#x 4 5 4", other+field)
			result := pipe.stop()
			said := pipe.open.messages()
			if !strings.Contains(said, fmt.Sprintf("xw-open: prog!anchor: the pointer at %#x may not be read, so nothing under it is watched: ", p.anchor)) ||
				!strings.Contains(said, "\nhint: run xw-open as root, or start the program by it: xw-open ... -- CMD\n") {
				t.Errorf("xw-open said\n%s", said)
			}
			hits, gaps := len(result.samples(1)), result.blind(1)
			if result.Complete || len(gaps) != 1 {
				t.Fatalf("complete %v, gaps %+v", result.Complete, result.Gaps)
			}
			if values == "bpf" && (hits != 4 || *gaps[0].To < moved.from || *gaps[0].From > moved.from) {
				t.Errorf("%d hits, gap %+v", hits, gaps[0])
			}
			if values == "off" && (hits != 0 || *gaps[0].To < moved.to || !strings.Contains(gaps[0].Detail, "could not be read")) {
				t.Errorf("%d hits, gap %+v", hits, gaps[0])
			}
		})
	}
}

// TestUndumpable: a process that hides from others of its user may not be watched by them, and that is said.
func TestUndumpable(t *testing.T) {
	hwtest.Require(t)
	hwtest.RequireRoot(t)
	cmd := exec.Command(shared(t, hwtest.BuildC(t, puppetProgram)), "2")
	cmd.SysProcAttr = nobody()
	p := startPuppetCmd(t, cmd)
	object := p.list()[0]
	p.do(0, "hide")
	for _, watch := range []string{"hp=anchor->0x28:4", fmt.Sprintf("hp=%#x->0x28:4", p.anchor)} {
		open := exec.Command(binary(t, "xw-open"), "--pid", p.pid(), "--watch", watch)
		open.SysProcAttr = nobody()
		var said strings.Builder
		open.Stderr = &said
		out, err := open.Output()
		if err == nil || open.ProcessState.ExitCode() != 1 || len(out) > 0 || !strings.Contains(said.String(), "permission denied") ||
			!strings.Contains(said.String(), "\nhint: ") {
			t.Errorf("%s: %v, %d bytes, said\n%s", watch, err, len(out), &said)
		}
	}
	pipe := startPipeline(t, setup{args: []string{"--pid", p.pid(), "--watch", "hp=anchor->0x28:4"}}) // as root
	pipe.ready()
	m := moves{leaf: 1}
	m.write(p, object)
	m.lives(p, pipe, 3)
	m.check(pipe.stop())
}

// child is a puppet that xw-open starts: its input is xw-open's, its output goes to a FIFO.
type child struct {
	t     testing.TB
	in    io.Writer
	lines *bufio.Reader
	ready map[string]string
}

func (c *child) Send(line string) {
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

func (c *child) Line() string {
	line, err := c.lines.ReadString('\n')
	if err != nil {
		c.t.Fatal(err)
	}
	return strings.TrimSuffix(line, "\n")
}

func (c *child) Uint(name string) uint64 {
	n, err := strconv.ParseUint(c.ready[name], 0, 64)
	if err != nil {
		c.t.Fatal(err)
	}
	return n
}

// TestCommand follows a chain in a program that xw-open starts, by root and by a user who may read no memory but that of his
// children's: there it is null at first.
func TestCommand(t *testing.T) {
	hwtest.Require(t)
	hwtest.RequireRoot(t)
	program := shared(t, hwtest.BuildC(t, puppetProgram))
	for _, user := range []*syscall.SysProcAttr{nil, nobody()} {
		t.Run(map[bool]string{true: "root", false: "nobody"}[user == nil], func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out")
			if err := syscall.Mkfifo(out, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(filepath.Dir(filepath.Dir(out)), 0o755); err != nil {
				t.Fatal(err)
			}
			for _, path := range []string{out, filepath.Dir(out)} {
				if err := os.Chown(path, 65534, -1); err != nil {
					t.Fatal(err)
				}
			}
			answers, err := os.OpenFile(out, os.O_RDWR, 0) // so that neither end waits for the other
			if err != nil {
				t.Fatal(err)
			}
			defer answers.Close()
			in, inEnd := newPipe(t)
			pipe := startPipeline(t, setup{user: user, stdin: in, args: []string{"--child-output", out, "--watch", "hp=anchor->0x28:4"},
				command: []string{program, "2"}})
			pipe.ready()
			c := &child{t: t, in: inEnd, lines: bufio.NewReader(answers), ready: map[string]string{}}
			for word := range strings.FieldsSeq(c.Line()) {
				if name, value, ok := strings.Cut(word, "="); ok {
					c.ready[name] = value
				}
			}
			p := puppetOf(c, 0)
			m := moves{leaf: 1, writings: []writing{{}}} // null
			m.lives(p, pipe, 5)
			inEnd.Close() // the program ends, and xw-open with it
			result := pipe.end()
			result.counted()
			m.checkBindings(result)
			// Without BPF there may be one more, before the moves: the program's threads began while the leaf was unbound.
			if n := len(result.blind(1)); n < 5 || n > 6 || len(result.gapsBut("blind")) > 0 {
				t.Errorf("gaps %+v", result.Gaps)
			}
		})
	}
}
