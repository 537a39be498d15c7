//go:build amd64

package watch_test

import (
	"fmt"
	"testing"
	"time"

	"xw/pkg/hwtest"
	"xw/pkg/watch"
)

// storm creates threads from a thread that is not the main one, each storing once and ending, without a pause; at a line of input it rests
// and prints how many stores were made, at the next it goes on.
const storm = `
#include <pthread.h>
#include <stdio.h>
#include <stdatomic.h>
#include <unistd.h>

volatile unsigned long counter;
static atomic_ulong stores;
static atomic_int stop, fence, rests;
static void *store(void *a) { counter = 1; atomic_fetch_add(&stores, 1); return 0; }
static void *cloner(void *a)
{
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 16384);
	while (!stop) {
		pthread_t t;
		if (fence) { rests = 1; usleep(100); continue; }
		if (pthread_create(&t, &attr, store, 0) == 0) pthread_join(t, 0);
	}
	return 0;
}
int main(void)
{
	char line[8];
	pthread_t c;
	pthread_create(&c, 0, cloner, 0);
	usleep(20000);
	printf("ready counter=%p\n", (void *)&counter); fflush(stdout);
	for (;;) {
		if (!fgets(line, sizeof line, stdin)) break;
		rests = 0; fence = 1; while (!rests) usleep(1000);
		printf("done stores=%lu\n", (unsigned long)stores); fflush(stdout);
		fgets(line, sizeof line, stdin);
		fence = 0;
	}
	stop = 1;
	pthread_join(c, 0);
}
`

// TestCloneStorm opens and closes the watchpoints while a thread that is not the main one creates others without a
// pause: every store of every thread between is a hit, or the thread is a gap, or the hit is counted as lost, as on a machine
// that gives the test no time to drain the rings.
func TestCloneStorm(t *testing.T) {
	for _, scope := range []string{"cpu", "inherit", "thread"} {
		for _, values := range []string{"bpf", "off"} {
			if scope == "thread" && values == "bpf" {
				continue
			}
			t.Run(fmt.Sprintf("%s %s", scope, values), func(t *testing.T) {
				hwtest.Require(t)
				hwtest.RequireRoot(t)
				target := hwtest.Start(t, hwtest.BuildC(t, storm))
				// Opened under the storm. Then the storm rests, so that the stores can be counted from a known point.
				s := open(t, target.PID, watch.Config{
					Slots: []watch.Slot{{Addr: target.Uint("counter"), Len: 8, Access: "w"}}, Scope: scope, Values: values, Kernel: "auto",
				})
				target.Send("")
				before := stores(t, target)
				early := collect(t, s)
				target.Send("")
				var hits []hit
				for range 30 {
					time.Sleep(10 * time.Millisecond)
					hits = append(hits, collect(t, s)...)
				}
				target.Send("")
				after := stores(t, target)
				hits = append(hits, collect(t, s)...)
				target.Send("")
				time.Sleep(20 * time.Millisecond) // the storm goes on while the watchpoints are switched off
				if err := s.Stop(); err != nil {
					t.Fatal(err)
				}
				late := collect(t, s)
				totals, err := s.Totals(0)
				if err != nil {
					t.Fatal(err)
				}
				gaps := s.Gaps()
				t.Logf("%d stores while armed, %d early hits, %d late, totals %+v, %d gaps", after-before, len(early), len(late), totals, len(gaps))
				if uint64(len(hits)) != after-before && len(gaps) == 0 && totals.Lost == 0 {
					t.Errorf("%d stores, %d hits and no gap", after-before, len(hits))
				}
				all := uint64(len(early) + len(hits) + len(late))
				if totals.Counted != all+totals.Lost || totals.Missed != 0 {
					t.Errorf("%d samples, totals %+v", all, totals)
				}
			})
		}
	}
}

func stores(t *testing.T, target *hwtest.Target) uint64 {
	t.Helper()
	return number(t, target.Line(), "done stores=%d")
}
