//go:build amd64

package watch_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"xw/pkg/hwtest"
	"xw/pkg/perfabi"
	"xw/pkg/proc"
	"xw/pkg/watch"
)

// writers stores 1, 2, 3... to counter from threads in turn: each line of input says how many threads, how many stores
// of each, how many forked copies do the same, how long the pause after each store is, how many stores the main thread
// makes before all that, and whether each thread stores once more when it is born and then says so and waits for a line.
const writers = `
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

volatile unsigned long counter;
static int pause_us, waits;
static void *store(void *n)
{
	for (long i = 0; i < (long)n; i++) { counter++; if (pause_us) usleep(pause_us); }
	return 0;
}
static void *live(void *n)
{
	char line[64];
	if (waits) {
		counter++;
		printf("born counter=%lu\n", counter); fflush(stdout);
		if (!fgets(line, sizeof line, stdin)) return 0;
	}
	return store(n);
}
int main(void)
{
	printf("ready counter=%p\n", (void *)&counter); fflush(stdout);
	char line[64];
	while (fgets(line, sizeof line, stdin)) {
		int threads, times, forks, own = 0;
		waits = 0;
		sscanf(line, "%d %d %d %d %d %d", &threads, &times, &forks, &pause_us, &own, &waits);
		store((void *)(long)own);
		for (int i = 0; i < threads; i++) {
			pthread_t t;
			pthread_create(&t, 0, live, (void *)(long)times);
			pthread_join(t, 0);
		}
		for (int i = 0; i < forks; i++) {
			if (fork() == 0) { store((void *)(long)times); _exit(0); }
			wait(0);
		}
		printf("done counter=%lu\n", counter); fflush(stdout);
	}
}
`

// hit is what the test reads of one sample.
type hit struct {
	time  uint64
	tid   uint32
	addr  uint64
	value uint64
	valid bool
}

// collect drains a stopped session and decodes its samples.
func collect(t *testing.T, s *watch.Set) []hit {
	t.Helper()
	layouts := map[uint64]watch.Source{}
	for _, src := range s.Sources() {
		for _, id := range src.IDs {
			layouts[id] = src
		}
	}
	var hits []hit
	_, err := s.Drain(func() bool { return true }, func(_ int, rec []byte) {
		h, err := perfabi.ParseHeader(rec)
		if err != nil {
			t.Fatal(err)
		}
		id, _ := perfabi.PeekID(rec)
		src, ok := layouts[id]
		if !ok {
			t.Fatalf("record type %d of an unknown event %d", h.Type, id)
		}
		if h.Type != perfabi.RecordSample {
			return
		}
		var sample perfabi.Sample
		layout := perfabi.Layout{SampleType: src.SampleType, RegsUser: src.RegsUser, RegsIntr: src.RegsIntr}
		if err := sample.Decode(rec, &layout); err != nil {
			t.Fatal(err)
		}
		if src.Role == "breakpoint" {
			hits = append(hits, hit{time: sample.Time, tid: sample.TID, addr: sample.Addr})
			return
		}
		var payload perfabi.Hit
		if err := payload.Parse(sample.Raw); err != nil {
			t.Fatal(err)
		}
		hits = append(hits, hit{time: sample.Time, tid: sample.TID, addr: payload.Addr, value: payload.Value, valid: payload.Flags&perfabi.HitValueValid != 0})
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(hits, func(a, b hit) int { return cmp.Compare(a.time, b.time) })
	return hits
}

func open(t *testing.T, pid int, cfg watch.Config) *watch.Set {
	t.Helper()
	p, err := proc.Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	s, err := watch.Open(p, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// TestEveryHit holds the number of stores, the records, the kernel's count and the program's counters against each
// other, with threads born after the attach and forked copies that must not count.
func TestEveryHit(t *testing.T) {
	const threads, times, forks = 20, 50, 3
	for _, scope := range []string{"cpu", "inherit"} {
		for _, values := range []string{"bpf", "off"} {
			t.Run(fmt.Sprintf("%s %s", scope, values), func(t *testing.T) {
				hwtest.Require(t)
				hwtest.RequireRoot(t)
				target := hwtest.Start(t, hwtest.BuildC(t, writers))
				addr := target.Uint("counter")
				s := open(t, target.PID, watch.Config{
					Slots: []watch.Slot{{Addr: addr, Len: 8, Access: "w"}}, Scope: scope, Values: values, Kernel: "auto", Regs: true,
				})
				target.Send(fmt.Sprintf("%d %d %d", threads, times, forks))
				target.Line()
				time.Sleep(10 * time.Millisecond)
				if err := s.Stop(); err != nil {
					t.Fatal(err)
				}
				hits := collect(t, s)
				totals, err := s.Totals(0)
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("%+v\n%+v", totals, s.Info())
				if len(hits) != threads*times || totals.Counted != threads*times || totals.Emitted != threads*times || totals.Lost != 0 || totals.Missed != 0 {
					t.Errorf("%d stores: %d samples, totals %+v", threads*times, len(hits), totals)
				}
				// Without BPF a child that is gone may have shared the memory.
				if gaps := s.Gaps(); values == "bpf" && len(gaps) != 0 || values == "off" && len(gaps) > forks {
					t.Errorf("gaps %+v", gaps)
				}
				seen := map[uint32]bool{}
				for i, h := range hits {
					seen[h.tid] = true
					if h.addr != addr || values == "bpf" && (!h.valid || h.value > threads*times || h.value == 0) {
						t.Fatalf("hit %d: %+v", i, h)
					}
				}
				if len(seen) != threads {
					t.Errorf("%d threads of %d seen", len(seen), threads)
				}
			})
		}
	}
}

// TestScopeThread attaches to the threads there are and to those born later. What those store before their birth is seen may
// be missing and lies in a gap; from then on every store is a hit.
func TestScopeThread(t *testing.T) {
	hwtest.Require(t)
	target := hwtest.Start(t, hwtest.BuildC(t, writers))
	addr := target.Uint("counter")
	s := open(t, target.PID, watch.Config{Slots: []watch.Slot{{Addr: addr, Len: 8, Access: "w"}}, Scope: "thread", Values: "auto", Kernel: "auto", Regs: true})
	const threads, times = 4, 200
	target.Send(fmt.Sprintf("%d %d 0 0 0 1", threads, times))
	var hits []hit
	for i := range threads {
		number(t, target.Line(), "born counter=%d")
		for until := time.Now().Add(time.Minute); len(s.Gaps()) <= i; time.Sleep(time.Millisecond) {
			hits = append(hits, collect(t, s)...)
			if time.Now().After(until) {
				t.Fatalf("%d threads were born, %d were seen", i+1, len(s.Gaps()))
			}
		}
		target.Send("")
	}
	number(t, target.Line(), "done counter=%d")
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	hits = append(hits, collect(t, s)...)
	totals, err := s.Totals(0)
	if err != nil {
		t.Fatal(err)
	}
	gaps := s.Gaps()
	t.Logf("%d stores, %d hits, totals %+v, gaps %+v", threads*(1+times), len(hits), totals, gaps)
	if uint64(len(hits)) != totals.Counted || totals.Lost != 0 {
		t.Errorf("%d hits, totals %+v", len(hits), totals)
	}
	if len(gaps) != threads {
		t.Errorf("%d threads born while watched, %d gaps: %+v", threads, len(gaps), gaps)
	}
	for _, g := range gaps {
		n := 0
		for _, h := range hits {
			if int(h.tid) == g.TID && h.time >= g.To {
				n++
			}
		}
		if n != times {
			t.Errorf("%d stores after the gap %+v, %d hits", times, g, n)
		}
	}
}

// TestScopeThreadCap refuses more watchpoints than the cap, with the arithmetic.
func TestScopeThreadCap(t *testing.T) {
	hwtest.Require(t)
	target := hwtest.Start(t, hwtest.BuildC(t, writers))
	p, err := proc.Open(target.PID)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	addr := target.Uint("counter")
	_, err = watch.Open(p, watch.Config{Scope: "thread", Values: "off", Kernel: "auto", MaxSamplers: 1,
		Slots: []watch.Slot{{Addr: addr, Len: 4, Access: "w"}, {Addr: addr + 4, Len: 4, Access: "w"}}})
	want := "open watchpoints: 2 slots x 1 threads = 2 watchpoints, the cap is 1: too many"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestReadWriteValues watches a word for reads and writes: the value of every hit, and no hit of the program's own
// reading.
func TestReadWriteValues(t *testing.T) {
	hwtest.Require(t)
	hwtest.RequireRoot(t)
	target := hwtest.Start(t, hwtest.BuildC(t, writers))
	addr := target.Uint("counter")
	s := open(t, target.PID, watch.Config{Slots: []watch.Slot{{Addr: addr, Len: 8, Access: "rw"}}, Scope: "cpu", Values: "bpf", Kernel: "auto"})
	const times = 200
	target.Send(fmt.Sprintf("1 %d 0", times))
	target.Line()
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	hits := collect(t, s)
	totals, err := s.Totals(0)
	if err != nil {
		t.Fatal(err)
	}
	// counter++ is one instruction, or a load and a store; printing the value is a load.
	if n := uint64(len(hits)); n != totals.Counted || totals.Missed != 0 || n != times+1 && n != 2*times+1 {
		t.Errorf("%d increments and a load: %d hits, totals %+v", times, n, totals)
	}
	perStore := (len(hits) - 1) / times
	for i, h := range hits[:len(hits)-1] {
		if want := uint64((i + perStore) / perStore); !h.valid || h.value != want && h.value != want-1 {
			t.Fatalf("hit %d: %+v, want value %d", i, h, want)
		}
	}
}

// TestLostIsTold has a target on one CPU store more than the ring holds, twice: what is missing between two records is what the
// record of a loss between them says, and what is missing at the end is counted.
func TestLostIsTold(t *testing.T) {
	hwtest.Require(t)
	hwtest.RequireRoot(t)
	for _, callchain := range []bool{false, true} {
		target := hwtest.Start(t, hwtest.BuildC(t, writers))
		var one unix.CPUSet
		one.Set(0)
		if err := unix.SchedSetaffinity(target.PID, &one); err != nil {
			t.Skipf("keep the target on CPU 0: %v", err)
		}
		s := open(t, target.PID, watch.Config{
			Slots: []watch.Slot{{Addr: target.Uint("counter"), Len: 8, Access: "w"}}, Scope: "cpu", Values: "bpf", Kernel: "auto",
			Regs: true, Callchain: callchain, RingSize: 4096,
		})
		var layout perfabi.Layout
		for _, src := range s.Sources() {
			if src.Role == "output" {
				layout.SampleType = src.SampleType
			}
		}
		const rounds, stores = 5, 100
		next, hits, told, losses := uint64(1), uint64(0), uint64(0), 0
		for range rounds {
			target.Send(fmt.Sprintf("0 0 0 0 %d", stores))
			target.Line()
			_, err := s.Drain(func() bool { return true }, func(cpu int, rec []byte) {
				switch perfabi.PeekType(rec) {
				case perfabi.RecordLost:
					var lost perfabi.Lost
					if err := lost.Decode(rec, &layout); err != nil {
						t.Fatal(err)
					}
					if id := lost.SampleID; cpu != 0 || lost.Lost == 0 || id.Identifier != lost.Event || int(id.PID) != target.PID || id.Time == 0 {
						t.Errorf("cpu %d: %+v", cpu, lost)
					}
					next += lost.Lost
					told += lost.Lost
					losses++
				case perfabi.RecordSample:
					var sample perfabi.Sample
					var hit perfabi.Hit
					if err := errors.Join(sample.Decode(rec, &layout), hit.Parse(sample.Raw)); err != nil {
						t.Fatal(err)
					}
					if hit.Value != next {
						t.Errorf("value %d, want %d", hit.Value, next)
					}
					hits++
					next = hit.Value + 1
				}
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
		totals, err := s.Totals(0)
		if err != nil {
			t.Fatal(err)
		}
		untold := rounds*stores + 1 - next
		if hits < 3*rounds || losses != rounds-1 || untold == 0 || totals.Emitted != hits || totals.Lost != told+untold || totals.Counted != rounds*stores {
			t.Errorf("callchain %v: %d stores, %d hits, %d told as lost in %d records, %d not told; totals %+v", callchain, rounds*stores, hits, told, losses, untold, totals)
		}
	}
}

// TestDrainWithoutRoom has no room for a moment, in each place where that is asked: a drain that left a record behind is not whole,
// though there is room again at its end, and no record is lost or comes twice.
func TestDrainWithoutRoom(t *testing.T) {
	hwtest.Require(t)
	hwtest.RequireRoot(t)
	target := hwtest.Start(t, hwtest.BuildC(t, writers))
	s := open(t, target.PID, watch.Config{Slots: []watch.Slot{{Addr: target.Uint("counter"), Len: 8, Access: "w"}}, Scope: "cpu", Values: "bpf", Kernel: "auto"})
	const stores = 20
	target.Send(fmt.Sprintf("0 0 0 0 %d", stores))
	target.Line()
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	hits, whole := 0, false
	for never := 1; !whole; never++ {
		asked, before := 0, hits
		var err error
		whole, err = s.Drain(func() bool { asked++; return asked != never }, func(_ int, rec []byte) {
			if perfabi.PeekType(rec) == perfabi.RecordSample {
				hits++
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if asked >= never && whole {
			t.Errorf("whole, without room at question %d of %d", never, asked)
		}
		if !whole && hits == stores && before == stores && never > 100 {
			t.Fatal("it does not end")
		}
	}
	if hits != stores {
		t.Errorf("%d stores, %d hits", stores, hits)
	}
}
