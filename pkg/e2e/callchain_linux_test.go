//go:build amd64

package e2e

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"xw/pkg/hwtest"
	"xw/pkg/wire"
)

// deep stores to counter at the bottom of as many calls as it is told, or has the kernel do it there.
const deep = `
#include <stdio.h>
#include <unistd.h>

volatile unsigned long counter;
static int ends[2];
__attribute__((noinline, optimize("no-optimize-sibling-calls"))) static long down(long n, int kernel)
{
	long below = 0;
	if (n > 0) below = down(n - 1, kernel);
	else if (kernel) read(ends[0], (void *)&counter, sizeof counter);
	else counter++;
	__asm__ volatile ("" : "+r"(below));
	return below + 1;
}
int main(void)
{
	if (pipe(ends)) return 1;
	printf("ready counter=%p down=%p\n", (void *)&counter, (void *)down); fflush(stdout);
	char line[64];
	unsigned long next = 1000;
	while (fgets(line, sizeof line, stdin)) {
		long n; int kernel;
		sscanf(line, "%ld %d", &n, &kernel);
		if (kernel && write(ends[1], &next, sizeof next) != sizeof next) return 1;
		printf("done %ld\n", down(n, kernel)); fflush(stdout);
	}
}
`

// TestCallchain holds the call chains that come with values against those of the kernel's own samples, on one process: the
// same stores have the same chains, cut where the kernel cuts them.
func TestCallchain(t *testing.T) {
	hwtest.Require(t)
	hwtest.RequireRoot(t)
	target := hwtest.Start(t, hwtest.BuildC(t, deep, "-fno-omit-frame-pointer"))
	down := target.Uint("down")
	depths := []int{0, 1, 5, 120, 126, 127, 300}
	chains := func(args ...string) (all [][]uint64) {
		s := attach(t, target.PID, append(args, "--watch", "counter", "--callchain")...)
		for _, depth := range depths {
			for kernel := range 2 {
				target.Send(fmt.Sprintf("%d %d", depth, kernel))
				target.Line()
			}
		}
		seen := s.stop()
		seen.wantComplete()
		seen.samples(func(s *wire.Sample) {
			if s.Origin == 0 && (len(s.Callchain) == 0 || s.Callchain[0] != s.IP) {
				t.Errorf("the chain of a hit at %#x is %#x", s.IP, s.Callchain)
			}
			all = append(all, slices.Clone(s.Callchain))
		})
		return all
	}
	plain := chains("--values", "off")
	withValues := chains("--values", "bpf")
	// read(2) stores each byte on its own, or all at once.
	if len(plain) < 2*len(depths) || len(plain) != len(withValues) {
		t.Fatalf("%d hits, with values %d", len(plain), len(withValues))
	}
	longest := 0
	for i := range plain {
		if !slices.Equal(plain[i], withValues[i]) {
			t.Errorf("hit %d: chain\n%#x, with values\n%#x", i, plain[i], withValues[i])
		}
		longest = max(longest, len(plain[i]))
	}
	first := withValues[0]
	if first[0] < down || first[0] > down+200 || len(first) < 2 {
		t.Errorf("chain of a store in down at %#x: %#x", down, first)
	}
	b, err := os.ReadFile("/proc/sys/kernel/perf_event_max_stack")
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.TrimSpace(string(b)); strconv.Itoa(longest) != want {
		t.Errorf("the longest chain has %d addresses, want %s", longest, want)
	}
}
