package proc_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"xw/pkg/proc"
)

// TestRelation has children that share the memory, that copied it, that run another program, and that have ended: of these
// nobody knows any more what they shared.
func TestRelation(t *testing.T) {
	exe := build(t, filepath.Join(t.TempDir(), "parent"), `
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
static int stay(void *arg) { prctl(PR_SET_PDEATHSIG, SIGKILL); for (;;) pause(); }
static int end(void *arg) { _exit(0); }
static int child(int (*f)(void *), int flags) {
	pid_t p = clone(f, (char *)malloc(65536) + 65536, flags | SIGCHLD, 0);
	if (p < 0) exit(1);
	if (f == end) {
		siginfo_t info;
		waitid(P_PID, p, &info, WEXITED | WNOWAIT);
	}
	return p;
}
static int run(void *arg) { prctl(PR_SET_PDEATHSIG, SIGKILL); execlp("sleep", "sleep", "1000", NULL); _exit(1); }
int main(void) {
	int sharer = child(stay, CLONE_VM), copy = child(stay, 0), ended = child(end, CLONE_VM), endedCopy = child(end, 0);
	int other = child(run, CLONE_VM | CLONE_VFORK);
	printf("%d %d %d %d %d\n", sharer, copy, ended, endedCopy, other);
	fflush(stdout);
	getchar();
	return 0;
}`)
	c := start(t, exec.Command(exe))
	want := []proc.Relation{proc.Sharer, proc.Copy, proc.Unclear, proc.Unclear, proc.Unclear}
	pids := make([]int, len(want))
	if _, err := fmt.Sscan(c.line, &pids[0], &pids[1], &pids[2], &pids[3], &pids[4]); err != nil {
		t.Fatal(err)
	}
	p := open(t, c.pid())
	for i, pid := range append(pids, 1<<22) {
		if got := p.Relation(pid); got != append(want, proc.Unclear)[i] {
			t.Errorf("child %d: relation %d", i, got)
		}
	}
}
