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

// rangesSource accesses words in memory of several kinds. Each line of input names a kind and how many rounds of a store
// and a load of it to do.
const rangesSource = `
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static volatile unsigned long *get(int fd, int flags, long size, long offset)
{
	char *p = mmap(0, size, PROT_READ | PROT_WRITE, flags, fd, 0);
	if (p == MAP_FAILED) return 0;
	return (void *)(p + offset);
}
volatile unsigned long plain[8];
int main(int argc, char **argv)
{
	long huge = 2 << 20;
	volatile unsigned long *thp, *file, *pages, *lazy;
	char *area = mmap(0, 2 * huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	area = (char *)(((long)area + huge - 1) & -huge);
	madvise(area, huge, MADV_HUGEPAGE);
	memset(area, 0, huge);
	thp = (void *)(area + huge / 2 + 4096 + 72);
	pages = get(-1, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, huge, 1048584);
	int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
	if (fd < 0 || ftruncate(fd, 8192)) abort();
	file = get(fd, MAP_SHARED, 8192, 4096 + 16);
	lazy = get(-1, MAP_PRIVATE | MAP_ANONYMOUS, 1 << 20, 8);
	printf("ready plain=%p thp=%p hugetlb=0x%lx file=%p lazy=%p\n", plain, thp, (long)pages, file, lazy);
	fflush(stdout);
	char line[64], kind[32];
	while (fgets(line, sizeof line, stdin)) {
		long n, i;
		sscanf(line, "%31s %ld", kind, &n);
		volatile unsigned long *w = !strcmp(kind, "thp") ? thp : !strcmp(kind, "hugetlb") ? pages :
			!strcmp(kind, "file") ? file : !strcmp(kind, "lazy") ? lazy : plain;
		for (i = 1; i <= n; i++) { *w = i * 0x0101010101010101; (void)*w; }
		printf("done\n");
		fflush(stdout);
	}
}
`

// TestReadWrite watches words for reads and writes in memory of all kinds, with slots of all sizes: each store and each
// load is one hit and has the value, so that the reading of the value makes none.
func TestReadWrite(t *testing.T) {
	hwtest.Require(t)
	hwtest.RequireRoot(t)
	reserveHugePage(t)
	for _, scope := range []string{"cpu", "inherit"} {
		for _, kind := range []string{"plain", "thp", "hugetlb", "file", "lazy"} {
			t.Run(scope+" "+kind, func(t *testing.T) {
				target := hwtest.Start(t, hwtest.BuildC(t, rangesSource), t.TempDir()+"/file")
				addr := target.Uint(kind)
				if addr == 0 {
					t.Skip("the kernel has no huge page to give (vm.nr_hugepages)")
				}
				if kind == "thp" && !isHuge(t, target.PID, addr) {
					t.Skip("the kernel gave no transparent huge page")
				}
				args := []string{"--scope", scope}
				sizes := []uint64{8, 4, 2, 1}
				for _, n := range sizes {
					args = append(args, "--watch", fmt.Sprintf("%#x:%d:rw", addr, n))
				}
				s := attach(t, target.PID, args...)
				const rounds = 200
				target.Send(fmt.Sprint(kind, " ", rounds))
				target.Line()
				seen := s.stop()
				seen.wantComplete()
				for watch, n := range sizes {
					seen.wantHits(watch, 2*rounds)
					for i, v := range seen.values(uint32(watch)) {
						want := uint64(i/2+1) * 0x0101010101010101
						if want &= 1<<(8*n) - 1; v != want && n < 8 || n == 8 && v != uint64(i/2+1)*0x0101010101010101 {
							t.Fatalf("%d bytes: value %d is %#x, want %#x", n, i, v, want)
						}
					}
				}
			})
		}
	}
}

// reserveHugePage asks the kernel for one more huge page until the test ends. It may have none.
func reserveHugePage(t *testing.T) {
	t.Helper()
	const path = "/proc/sys/vm/nr_hugepages"
	b, err := os.ReadFile(path)
	if err != nil {
		return // a kernel without them
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	set := func(n int) {
		if err := os.WriteFile(path, []byte(strconv.Itoa(n)), 0); err != nil {
			t.Logf("set the number of huge pages: %v", err)
		}
	}
	set(n + 1)
	t.Cleanup(func() { set(n) })
}

// isHuge reports whether the mapping at an address has a transparent huge page.
func isHuge(t *testing.T, pid int, addr uint64) bool {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps", pid))
	if err != nil {
		t.Fatal(err)
	}
	inside := false
	for line := range strings.Lines(string(b)) {
		var from, to, kib uint64
		if n, _ := fmt.Sscanf(line, "%x-%x ", &from, &to); n == 2 {
			inside = from <= addr && addr < to
		}
		if n, _ := fmt.Sscanf(line, "AnonHugePages: %d kB", &kib); n == 1 && inside {
			return kib > 0
		}
	}
	return false
}

// TestReadWriteFlatOut makes 100 000 accesses to a word that is watched for both.
func TestReadWriteFlatOut(t *testing.T) {
	hwtest.Require(t)
	hwtest.RequireRoot(t)
	for _, scope := range []string{"cpu", "inherit"} {
		a := startActor(t)
		s := attach(t, a.PID, "--scope", scope, roomy, "--watch", "counter:rw")
		a.do("store", 50_000)
		a.do("load", 50_000)
		seen := s.stop()
		seen.wantHits(0, 100_000)
		seen.wantComplete()
		for i, v := range seen.values(0) {
			if want := uint64(min(i+1, 50_000)); v != want {
				t.Fatalf("value %d is %d, want %d", i, v, want)
			}
		}
	}
}

// TestReadsOnly watches for reads: the hits are those of rw, and the report tells which are which.
func TestReadsOnly(t *testing.T) {
	hwtest.Require(t)
	hwtest.RequireRoot(t)
	a := startActor(t)
	s := attach(t, a.PID, "--watch", "counter:r")
	a.do("store", 30)
	a.do("load", 20)
	seen := s.stop()
	seen.wantHits(0, 50)
	seen.wantComplete()
	byOp := map[string]uint64{}
	for _, site := range seen.Watches[0].Sites {
		byOp[site.Op] += site.Hits
	}
	if byOp["write"] != 30 || byOp["read"] != 20 {
		t.Errorf("hits by operation %v", byOp)
	}
}

// TestOverlap watches the same word for writes and for both at once.
func TestOverlap(t *testing.T) {
	eachMode(t, func(t *testing.T, m mode) {
		a := startActor(t)
		s := attach(t, a.PID, append(m.args, "--watch", "w=counter", "--watch", "rw=counter:rw", "--watch", "half=counter+4:4:rw")...)
		a.do("store", 100)
		a.do("load", 50)
		seen := s.stop()
		seen.wantHits(0, 100)
		seen.wantHits(1, 150)
		seen.wantHits(2, 150)
		seen.wantComplete()
		if m.bpf() {
			seen.wantSequence(0, 1)
			values := seen.values(1)
			if !slices.IsSorted(values) || values[0] != 1 || values[149] != 100 {
				t.Errorf("values %v", values)
			}
		}
	})
}

// TestExecute watches a function.
func TestExecute(t *testing.T) {
	eachMode(t, func(t *testing.T, m mode) {
		a := startActor(t)
		s := attach(t, a.PID, append(m.args, "--watch", "store:x", "--watch", "counter")...)
		a.do("store", 100)
		a.do("oneshot", 10)
		seen := s.stop()
		seen.wantHits(0, 110)
		seen.wantHits(1, 110)
		seen.wantComplete()
		seen.samples(func(h *wire.Sample) {
			if h.Watch == 0 && (h.IP != a.Uint("store") || h.Value.OK) {
				t.Fatalf("hit %+v, want ip %#x and no value", h, a.Uint("store"))
			}
		})
	})
}

// TestRanges watches ranges that several slots cover, and accesses every byte and every place of a word in and around
// them.
func TestRanges(t *testing.T) {
	hwtest.Require(t)
	hwtest.RequireRoot(t)
	for _, test := range []struct{ from, size int }{{0, 24}, {4, 8}, {9, 3}, {0, 32}, {7, 1}, {6, 5}} {
		a := startActor(t)
		s := attach(t, a.PID, "--watch", fmt.Sprintf("range+%d:%d", test.from, test.size))
		in := func(at int) bool { return at >= test.from && at < test.from+test.size }
		var want uint64
		for at := range 40 {
			a.do("byte", at, 1)
			if in(at) {
				want++
			}
		}
		seen := s.stop()
		seen.wantHits(0, want)
		seen.wantComplete()
		if n := len(seen.values(0)); uint64(n) != want {
			t.Errorf("%d values, want %d", n, want)
		}
	}
}

// TestWideStores stores words over ranges of several slots: a hit on each slot that a store touches, one access in all.
func TestWideStores(t *testing.T) {
	hwtest.Require(t)
	hwtest.RequireRoot(t)
	a := startActor(t)
	s := attach(t, a.PID, "--watch", "range+4:8")
	slots := [][2]int{{4, 8}, {8, 12}} // 4 bytes at +4 and 4 at +8
	var want uint64
	for at := range 20 {
		a.do("word", at, 1)
		for _, slot := range slots {
			if at < slot[1] && at+8 > slot[0] {
				want++
			}
		}
	}
	seen := s.stop()
	seen.wantHits(0, want)
	seen.wantComplete()
}

// unmapSource maps a page, stores to it and unmaps it, in one thread, and in another one too.
const unmapSource = `
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

static char *place;
static void *turn(void *n)
{
	for (long i = 1; i <= (long)n; i++) {
		volatile unsigned long *w = mmap(place, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		if ((char *)w != place) abort();
		*w = i;
		munmap(place, 4096);
	}
	return 0;
}
int main(void)
{
	char line[64];
	place = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(place, 4096);
	printf("ready word=%p\n", place); fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		pthread_t t;
		pthread_create(&t, 0, turn, (void *)atol(line));
		pthread_join(t, 0);
		printf("done\n"); fflush(stdout);
	}
}
`

// TestUnmapped stores to a page that is mapped only for the moment of the store: the watch stays with the address, and
// each value is there.
func TestUnmapped(t *testing.T) {
	hwtest.Require(t)
	hwtest.RequireRoot(t)
	for _, access := range []string{"w", "rw"} {
		target := hwtest.Start(t, hwtest.BuildC(t, unmapSource))
		s := attach(t, target.PID, "--watch", fmt.Sprintf("%#x:8:%s", target.Uint("word"), access))
		target.Send("500")
		target.Line()
		seen := s.stop()
		seen.wantHits(0, 500)
		seen.wantComplete()
		seen.wantSequence(0, 1)
	}
}
