//go:build amd64

package e2e

import (
	"fmt"
	"os/exec"
	"syscall"
	"testing"

	"xw/pkg/hwtest"
	"xw/pkg/wire"
)

// TestSharedMemory has children with the same memory store: those of vfork and of clone with CLONE_VM. With BPF they
// count; without it they are gaps.
func TestSharedMemory(t *testing.T) {
	eachMode(t, func(t *testing.T, m mode) {
		for _, how := range []string{"vfork", "clone"} {
			a := startActor(t)
			s := attach(t, a.PID, append(m.args, "--watch", "counter")...)
			a.do("store", 5)
			a.do(how, 20, 3)
			a.do("store", 5)
			seen := s.stop()
			if m.bpf() {
				seen.wantHits(0, 20*3+10)
				seen.wantComplete()
				seen.wantSequence(0, 1)
				continue
			}
			seen.wantHits(0, 10)
			if n := seen.gapsOf("unwatched_task"); n != 20 || len(seen.Gaps) != 20 || seen.Complete {
				t.Errorf("%s: 20 children, gaps %v", how, seen.Gaps)
			}
		}
	})
}

// TestSharerBefore attaches when another process with the same memory is there already.
func TestSharerBefore(t *testing.T) {
	eachMode(t, func(t *testing.T, m mode) {
		a := startActor(t)
		a.do("sharer")
		s := attach(t, a.PID, append(m.args, "--watch", "counter")...)
		a.do("share", 30)
		a.do("store", 5)
		seen := s.stop()
		if m.bpf() {
			seen.wantHits(0, 35)
			seen.wantComplete()
			seen.wantSequence(0, 1)
			return
		}
		seen.wantHits(0, 5)
		if n := seen.gapsOf("unwatched_task"); n != 1 || seen.Complete {
			t.Errorf("gaps %v, want one of the process", seen.Gaps)
		}
	})
}

// TestForkedCopies has forked children store to their copies, which is nobody's business.
func TestForkedCopies(t *testing.T) {
	eachMode(t, func(t *testing.T, m mode) {
		a := startActor(t)
		s := attach(t, a.PID, append(m.args, "--watch", "counter")...)
		a.do("store", 5)
		a.do("fork", 10, 100)
		a.do("store", 5)
		seen := s.stop()
		seen.wantHits(0, 10)
		if m.bpf() {
			seen.wantComplete()
		}
	})
}

// TestExec has the target execute the same program at the same addresses: what that does does not count, also when it
// goes on for some time.
func TestExec(t *testing.T) {
	eachMode(t, func(t *testing.T, m mode) {
		a := startActor(t, "-no-pie")
		s := attach(t, a.PID, append(m.args, "--watch", "counter")...)
		a.do("store", 5)
		a.Send("exec")
		if line := a.Line(); line[:5] != "ready" {
			t.Fatalf("the program says %q", line)
		}
		a.do("store", 1000)
		seen := s.wait()
		seen.wantHits(0, 5)
		seen.wantComplete()
		if seen.Session.StopReason != "target_exec" {
			t.Errorf("stopped because of %s", seen.Session.StopReason)
		}
	})
}

// whoami has its main thread, other threads, and two children with the same memory, of which one is the first process of a pid
// namespace of its own, store who they are: process << 32 | thread, in the namespace of the main thread.
const whoami = `
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

volatile unsigned long counter;
static pid_t child;
static void store(unsigned long pid, unsigned long tid) { counter = pid << 32 | tid; }
static void *thread(void *arg) { store(getpid(), gettid()); return arg; }
static int process(void *arg) { store(child, child); (void)arg; return 0; }
int main(void)
{
	static char stack[65536] __attribute__((aligned(16)));
	store(getpid(), gettid());
	for (int i = 0; i < 3; i++) {
		pthread_t t;
		pthread_create(&t, 0, thread, 0);
		pthread_join(t, 0);
	}
	for (int i = 0; i < 2; i++) {
		int flags = CLONE_VM | CLONE_PARENT_SETTID | SIGCHLD | (i ? CLONE_NEWPID : 0);
		pid_t p = clone(process, stack + sizeof stack, flags, 0, &child);
		if (p < 0 || waitpid(p, 0, 0) != p) return 1;
	}
	return 0;
}
`

// TestPidNamespace runs xw-open and its target in the first pid namespace and in one below: the ids in samples are those that
// both of them see.
func TestPidNamespace(t *testing.T) {
	eachMode(t, func(t *testing.T, m mode) {
		program := hwtest.BuildC(t, whoami)
		for _, inside := range []bool{false, true} {
			args := append(append([]string{}, m.args...), "--watch", "counter", "--", program)
			cmd := exec.Command("xw-open", args...)
			if inside {
				const script = `mount --make-rprivate / && mount -t proc proc /proc && exec xw-open "$@"`
				cmd = exec.Command("sh", append([]string{"-c", script, "sh"}, args...)...)
				cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
			}
			seen := attachBy(t, cmd).wait()
			said := map[string]bool{}
			seen.samples(func(s *wire.Sample) {
				is := fmt.Sprintf("process %d thread %d", s.PID, s.TID)
				said[is] = true
				if v := s.Value.V; m.bpf() && (!s.Value.OK || v != uint64(s.PID)<<32|uint64(s.TID)) {
					t.Errorf("%s: stores %+v, process %d thread %d", is, s.Value, v>>32, uint32(v))
				}
				if inside && s.PID > 100 {
					t.Errorf("%s in a new namespace", is)
				}
			})
			want := 6
			if !m.bpf() {
				want = 4 // the children are gaps
			}
			if len(said) != want || seen.Watches[0].Hits != uint64(want) {
				t.Errorf("inside %v: %d hits by %v, want %d", inside, seen.Watches[0].Hits, said, want)
			}
		}
	})
}
