//go:build amd64

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"xw/pkg/hwtest"
)

// sharedSource shares a page with forked children: "parent N" and "child N" store N times, the latter by a child that
// was there from the start, "born N" by one that is created for it.
const sharedSource = `
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

static volatile unsigned long *word;
static void store(long n) { for (long i = 0; i < n; i++) ++*word; }
int main(void)
{
	char line[64], who[16];
	int to[2], from[2];
	long n;
	word = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (pipe(to) || pipe(from)) abort();
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (read(to[0], &n, sizeof n) == sizeof n) { store(n); write(from[1], &n, sizeof n); }
		_exit(0);
	}
	printf("ready word=%p\n", word); fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		sscanf(line, "%15s %ld", who, &n);
		if (!strcmp(who, "parent")) store(n);
		else if (!strcmp(who, "child")) { write(to[1], &n, sizeof n); read(from[0], &n, sizeof n); }
		else { if (fork() == 0) { store(n); _exit(0); } wait(0); }
		printf("done\n"); fflush(stdout);
	}
}
`

// TestSharedPage has other processes store to the watched page at the same address: their hits are not the target's, are
// counted apart where they trap at all, and what they leave in the page is told.
func TestSharedPage(t *testing.T) {
	eachMode(t, func(t *testing.T, m mode) {
		target := hwtest.Start(t, hwtest.BuildC(t, sharedSource))
		s := attach(t, target.PID, append(m.args, "--watch", fmt.Sprintf("%#x:8", target.Uint("word")))...)
		for _, line := range []string{"parent 10", "born 7", "parent 10", "child 25"} {
			target.Send(line)
			target.Line()
		}
		seen := s.stop()
		seen.wantHits(0, 20)
		// Watchpoints on a CPU see all processes. Those of threads are handed on to forked children, unless it is without
		// BPF, which tells these apart.
		foreign := map[string]uint64{"cpu": 25 + 7, "cpu without values": 25 + 7, "inherit": 7, "inherit without values": 0}[m.name]
		if got := seen.Watches[0].Foreign; got != foreign {
			t.Errorf("%d hits of others, want %d", got, foreign)
		}
		if !strings.Contains(strings.Join(seen.Notes, "\n"), "shared") {
			t.Errorf("no note says that the page is shared: %q", seen.Notes)
		}
		if m.bpf() && !*seen.Watches[0].ChangedWithoutHit {
			t.Error("it is not told that something else wrote the word")
		}
	})
}
