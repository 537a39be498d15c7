//go:build amd64

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"xw/pkg/hwtest"
	"xw/pkg/watch"
	"xw/pkg/wire"
)

// duelSource accesses word in ways that a report tells apart. Each line of input names one and how often, and is answered
// by "done".
const duelSource = `
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

volatile unsigned long word __attribute__((aligned(64)));
volatile unsigned long quiet __attribute__((aligned(64)));
static sem_t turn[2];
static long rounds;

__attribute__((noinline)) static void set(unsigned long v) { word = v; }
__attribute__((noinline)) static void repeat(unsigned long v) { word = v; }
__attribute__((noinline)) static unsigned long look(void) { return word; }
__attribute__((noinline)) static void add(void) { __atomic_fetch_add(&word, 1, __ATOMIC_SEQ_CST); }
__attribute__((noinline)) static void fill(long byte)
{
	char *p = (char *)&word;
	long n = 8;
	__asm__ volatile("rep stosb" : "+D"(p), "+c"(n) : "a"(byte) : "memory");
}
static void *first(void *a)
{
	pthread_setname_np(pthread_self(), "first");
	for (long i = 1; i <= rounds; i++) { sem_wait(&turn[0]); set(i); sem_post(&turn[1]); }
	return 0;
}
static void *second(void *a)
{
	pthread_setname_np(pthread_self(), "second");
	for (long i = 1; i <= rounds; i++) { sem_wait(&turn[1]); usleep(2000); repeat(i); sem_post(&turn[0]); }
	return 0;
}
static void *adder(void *n) { for (long i = 0; i < (long)n; i++) add(); return 0; }

/* Two threads, each on a CPU of its own, take turns: first sets a new value, second sets it again, so much later that it is
   no race in which the first could have read what the second stored. */
static void duel(long n)
{
	pthread_t t[2];
	rounds = n;
	sem_init(&turn[0], 0, 1);
	sem_init(&turn[1], 0, 0);
	for (int i = 0; i < 2; i++) {
		pthread_attr_t own;
		cpu_set_t cpu;
		CPU_ZERO(&cpu);
		CPU_SET(i, &cpu);
		pthread_attr_init(&own);
		pthread_attr_setaffinity_np(&own, sizeof cpu, &cpu);
		if (pthread_create(&t[i], &own, i ? second : first, 0)) abort();
	}
	for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
}
static void storm(long n)
{
	pthread_t t[4];
	for (int i = 0; i < 4; i++) pthread_create(&t[i], 0, adder, (void *)n);
	for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
}
int main(void)
{
	char line[64], what[32];
	int p[2];
	if (pipe(p)) abort();
	printf("ready word=%p\n", (void *)&word);
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		long n = 0;
		sscanf(line, "%31s %ld", what, &n);
		if (!strcmp(what, "duel")) duel(n);
		if (!strcmp(what, "storm")) storm(n);
		for (long i = 0; i < n; i++) {
			unsigned long v = i;
			if (!strcmp(what, "set")) set(i);
			if (!strcmp(what, "look")) look();
			if (!strcmp(what, "add")) add();
			if (!strcmp(what, "fill")) fill(i);
			if (!strcmp(what, "read") && (write(p[1], &v, 8) != 8 || read(p[0], (void *)&word, 8) != 8)) abort();
			if (!strcmp(what, "write") && (write(p[1], (void *)&word, 8) != 8 || read(p[0], &v, 8) != 8)) abort();
		}
		printf("done\n");
		fflush(stdout);
	}
	return 0;
}
`

// duel is the running program.
type duel struct{ *hwtest.Target }

func startDuel(t *testing.T) duel {
	t.Helper()
	hwtest.Require(t)
	hwtest.RequireRoot(t)
	return duel{hwtest.Start(t, hwtest.BuildC(t, duelSource))}
}

// do has the program access the word.
func (d duel) do(what string, n int) {
	d.Send(fmt.Sprint(what, " ", n))
	d.Line()
}

// details is what these tests read of a report beyond what report has.
type details struct {
	Complete bool
	Gaps     []gap
	Notes    []string
	Session  struct {
		Parts     uint64
		ElapsedNS uint64 `json:"elapsed_ns"`
	}
	Watches []struct {
		Hits           uint64
		Accesses       *uint64
		Counted        uint64
		Filtered       uint64
		Silent         *uint64
		HandoffsThread uint64  `json:"handoffs_thread"`
		HandoffsCPU    uint64  `json:"handoffs_cpu"`
		Changed        *bool   `json:"changed_without_hit"`
		PausedNS       uint64  `json:"paused_ns"`
		DutyCycle      float64 `json:"duty_cycle"`
		Sites          []siteDetails
	}
}

type siteDetails struct {
	Func           string
	Op             string
	Origin         int
	Hits           uint64
	Syscall        *string
	Silent         *uint64
	HandoffsThread uint64  `json:"handoffs_thread"`
	HandoffsCPU    uint64  `json:"handoffs_cpu"`
	AccessBytes    *uint64 `json:"access_bytes"`
	LastOf         *string `json:"last_of"`
}

// reported runs xw-report and returns what it prints.
func reported(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("xw-report", args...).Output()
	if err != nil {
		t.Fatalf("xw-report %q: %v", args, err)
	}
	return string(out)
}

func detailsOf(t *testing.T, files ...string) (d details) {
	t.Helper()
	if err := json.Unmarshal([]byte(reported(t, append([]string{"--format", "json"}, files...)...)), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// site returns the site in a function.
func (d *details) site(t *testing.T, name string) siteDetails {
	t.Helper()
	i := slices.IndexFunc(d.Watches[0].Sites, func(s siteDetails) bool { return s.Func == name })
	if i < 0 {
		t.Fatalf("no site in %s: %+v", name, d.Watches[0].Sites)
	}
	return d.Watches[0].Sites[i]
}

func number(p *uint64) string {
	if p == nil {
		return "null"
	}
	return strconv.FormatUint(*p, 10)
}

// wantLines wants texts in a report, spaces aside, and others not.
func wantLines(t *testing.T, text string, want []string, not ...string) {
	t.Helper()
	flat := strings.Join(strings.Fields(text), " ")
	for _, w := range want {
		if !strings.Contains(flat, w) {
			t.Errorf("the report lacks %q:\n%s", w, text)
		}
	}
	for _, n := range not {
		if strings.Contains(flat, n) {
			t.Errorf("the report has %q:\n%s", n, text)
		}
	}
}

// TestHandoffs has two threads on two CPUs take turns, one of them setting what stands there already.
func TestHandoffs(t *testing.T) {
	d := startDuel(t)
	s := attach(t, d.PID, "--watch", "word")
	const n = 200
	d.do("duel", n)
	seen := s.stop()
	seen.wantHits(0, 2*n)
	seen.wantComplete()
	r := detailsOf(t, seen.events)
	w := r.Watches[0]
	if w.HandoffsThread != 2*n-1 || w.HandoffsCPU != 2*n-1 || number(w.Silent) != strconv.Itoa(n) {
		t.Errorf("%d hand-offs between threads, %d between CPUs, want %d; %s silent, want %d", w.HandoffsThread, w.HandoffsCPU, 2*n-1, number(w.Silent), n)
	}
	first, second := r.site(t, "set"), r.site(t, "repeat")
	if first.HandoffsThread != n-1 || second.HandoffsThread != n || first.HandoffsCPU != n-1 || second.HandoffsCPU != n ||
		number(first.Silent) != "0" || number(second.Silent) != strconv.Itoa(n) {
		t.Errorf("sites %+v, %s silent and %+v, %s silent", first, number(first.Silent), second, number(second.Silent))
	}
	wantLines(t, reported(t, seen.events), []string{
		"complete 400 hits by 2 threads, as the kernel counted", "50.0% 200 set", "by first; last 0xc7 -> 0xc8; 199 after another thread",
		"by second; last 0xc8 -> 0xc8; 200 left the value as it was; 200 after another thread",
		"399 hits came after one by another thread, 399 after one on another CPU"})
}

// TestOnlyReads: x86 cannot watch for reads alone; the sites that only write are counted and left out.
func TestOnlyReads(t *testing.T) {
	d := startDuel(t)
	s := attach(t, d.PID, "--watch", "w=word:8:r")
	d.do("look", 30)
	d.do("set", 20)
	d.do("add", 10)
	d.do("write", 5)
	d.do("read", 5)
	seen := s.stop()
	seen.wantComplete()
	r := detailsOf(t, seen.events)
	if w := r.Watches[0]; w.Hits != 30+20+10+8*5+8*5 || w.Filtered != 20+8*5 {
		t.Errorf("%d hits, %d filtered, want %d and %d", w.Hits, w.Filtered, 140, 60)
	}
	text := reported(t, seen.events)
	wantLines(t, text, []string{"30 look", "10 add", "write(2) read 8 bytes", "60 hits of 2 sites that do not read left out",
		"note: w: r is armed as rw, since x86 has no read-only watchpoint"}, " set", "read(2) wrote")
	wantLines(t, reported(t, "--op", "w", seen.events), []string{"20 set", "10 add", "read(2) wrote 8 bytes",
		"70 hits of 2 sites that do not write left out"}, " look", "write(2) read")
	wantLines(t, reported(t, "--op", "rw", seen.events), []string{" look", " set", " add"}, "left out")
}

// TestCopies: a copy is one access, and one line for people, wherever its iterations were reported.
func TestCopies(t *testing.T) {
	d := startDuel(t)
	s := attach(t, d.PID, "--watch", "word:rw")
	d.do("fill", 7)
	d.do("read", 5)
	d.do("write", 3)
	seen := s.stop()
	seen.wantComplete()
	seen.wantHits(0, 8*(7+5+3))
	r := detailsOf(t, seen.events)
	if got := number(r.Watches[0].Accesses); got != "15" {
		t.Errorf("%s accesses, want 15", got)
	}
	for _, want := range []struct {
		name, op string
		hits     uint64
	}{{"fill", "write", 56}, {"read", "write", 40}, {"write", "read", 24}} {
		var hits uint64
		for _, site := range r.Watches[0].Sites {
			if site.Func != want.name && (site.Syscall == nil || *site.Syscall != want.name) {
				continue
			}
			hits += site.Hits
			if site.Op != want.op || (number(site.AccessBytes) == "8") == (site.LastOf != nil) {
				t.Errorf("%s: op %s, %s bytes each, last of %v", want.name, site.Op, number(site.AccessBytes), site.LastOf)
			}
		}
		if hits != want.hits {
			t.Errorf("%s: %d hits, want %d", want.name, hits, want.hits)
		}
	}
	wantLines(t, reported(t, seen.events), []string{"46.7% 56 fill", "7 accesses of 8 bytes by", "33.3% 40 kernel: read(2) wrote 8 bytes",
		"5 accesses by", "20.0% 24 kernel: write(2) read 8 bytes", "3 accesses by"})
}

// pokerSource writes a word of another process by process_vm_writev(2): PID ADDRESS VALUE.
const pokerSource = `
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/uio.h>
int main(int argc, char **argv)
{
	unsigned long v = strtoul(argv[3], 0, 0);
	struct iovec from = {&v, sizeof v}, to = {(void *)strtoul(argv[2], 0, 0), sizeof v};
	return process_vm_writev(atoi(argv[1]), &from, 1, &to, 1, 0) != sizeof v;
}
`

// TestChangedWithoutHit has a third process write the word, which makes no hit.
func TestChangedWithoutHit(t *testing.T) {
	poker := hwtest.BuildC(t, pokerSource)
	for _, test := range []struct {
		name    string
		stores  int
		poke    string
		end     bool // the target ends before xw-open
		changed string
		detail  string
	}{
		{name: "before any hit", poke: "0x1234", changed: "true", detail: "0x1234 stands there, and what was seen last is 0x0: another process (process_vm_writev"},
		{name: "after the last hit", stores: 3, poke: "0x1234", changed: "true", detail: "0x1234 stands there, and what was seen last is 0x2"},
		{name: "to the same value", stores: 3, poke: "2", changed: "false"},
		{name: "not at all", stores: 3, changed: "false"},
		{name: "unknown after the end", stores: 3, poke: "0x1234", end: true, changed: "null"},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := startDuel(t)
			s := attach(t, d.PID, "--watch", "word")
			d.do("set", test.stores)
			if test.poke != "" {
				if err := exec.Command(poker, strconv.Itoa(d.PID), fmt.Sprint(d.Uint("word")), test.poke).Run(); err != nil {
					t.Fatal(err)
				}
			}
			var seen *seen
			if test.end {
				d.Finish()
				seen = s.wait()
			} else {
				seen = s.stop()
			}
			seen.wantHits(0, uint64(test.stores))
			r := detailsOf(t, seen.events)
			changed := "null"
			if c := r.Watches[0].Changed; c != nil {
				changed = fmt.Sprint(*c)
			}
			if changed != test.changed {
				t.Errorf("changed without a hit: %s, want %s", changed, test.changed)
			}
			if (test.changed == "true") != (len(r.Gaps) == 1) || r.Complete != (test.changed != "true") {
				t.Fatalf("gaps %v", r.Gaps)
			}
			if test.detail != "" && (r.Gaps[0].Kind != "changed_without_hit" || !strings.HasPrefix(r.Gaps[0].Detail, test.detail)) {
				t.Errorf("gap %v", r.Gaps[0])
			}
		})
	}
}

// TestNoFalseChange has four threads on all CPUs fight for the word until the end: the last value may be read by one when
// it is another's already.
func TestNoFalseChange(t *testing.T) {
	d := startDuel(t)
	for range 10 {
		s := attach(t, d.PID, "--watch", "word")
		d.do("storm", 200)
		seen := s.stop()
		seen.wantHits(0, 800)
		if n := seen.gapsOf("changed_without_hit"); n > 0 {
			t.Errorf("%v", seen.Gaps)
		}
	}
}

// TestNothingHappened: the report says why there may be no hits.
func TestNothingHappened(t *testing.T) {
	d := startDuel(t)
	s := attach(t, d.PID, "--watch", "quiet")
	d.do("set", 3)
	seen := s.stop()
	seen.wantComplete()
	wantLines(t, reported(t, seen.events), []string{"complete no hits in", "note: quiet: no hit", "watchpoint", "scope", "is mapped and writable"},
		"where", "values")
}

// pauses are those that a stream tells of so far.
func pauses(t *testing.T, raw string) (list []wire.Pause) {
	t.Helper()
	in, err := os.Open(raw)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	for r := wire.NewReader(in); r.Next(); { // to where it is written at the moment
		if p, ok := r.Record().(*wire.Pause); ok {
			list = append(list, *p)
		}
	}
	return list
}

// TestDutyCycle: a watch that is paused to keep to a rate says for which part of the time it was on. The word is set until
// that was often done while it was off, so that there are fewer hits.
func TestDutyCycle(t *testing.T) {
	d := startDuel(t)
	s := attach(t, d.PID, "--watch", "word", "--max-rate", "1000", roomy)
	const n = 100
	var bursts [][2]uint64 // from when to when the word was set n times
	for off, end := 0, time.Now().Add(hangs); off < 50; {
		if time.Now().After(end) {
			t.Fatalf("%d times while it was off", off)
		}
		for range 10 {
			from := watch.Now()
			d.do("set", n)
			bursts = append(bursts, [2]uint64{from, watch.Now()})
		}
		off = 0
		told := pauses(t, s.raw)
		for _, b := range bursts {
			if slices.ContainsFunc(told, func(p wire.Pause) bool { return b[0] > p.From && b[1] < p.To }) {
				off++
			}
		}
	}
	seen := s.stop()
	r := detailsOf(t, seen.events)
	w := r.Watches[0]
	if w.Hits == 0 || w.Hits >= uint64(n*len(bursts)) || w.Counted != w.Hits+seen.Watches[0].Lost || r.Complete {
		t.Errorf("%d stores, %d hits, %d counted, complete %v", n*len(bursts), w.Hits, w.Counted, r.Complete)
	}
	var paused uint64
	for _, g := range r.Gaps {
		if g.Kind == "lost" { // on a machine that gives xw-open no time
			continue
		}
		if g.Kind != "paused" || g.From == nil || g.To == nil {
			t.Fatalf("gap %v", g)
		}
		paused += *g.To - *g.From
	}
	if want := 1 - float64(paused)/float64(r.Session.ElapsedNS); paused == 0 || w.PausedNS != paused || w.DutyCycle-want > 1e-4 || want-w.DutyCycle > 1e-4 {
		t.Errorf("paused for %d ns, and the gaps for %d; duty cycle %g, want %g", w.PausedNS, paused, w.DutyCycle, want)
	}
	wantLines(t, reported(t, seen.events), []string{"INCOMPLETE", "paused for", "% of the time, and nothing is extrapolated from that"})
}

// TestRotatedFiles: the files of one capture are one report, and one that is missing is a gap.
func TestRotatedFiles(t *testing.T) {
	d := startDuel(t)
	file := filepath.Join(t.TempDir(), "capture")
	const n = 30_000
	s := attach(t, d.PID, "--watch", "word", "-o", file, "--rotate", "1048576", "--keep", "100", "--max-events", strconv.Itoa(n), roomy)
	d.do("set", n)
	for line := range s.lines {
		s.said = append(s.said, line)
	}
	if err := s.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	raw, _ := filepath.Glob(file + ".*")
	if len(raw) < 3 {
		t.Fatalf("files %q", raw)
	}
	var events []string
	for _, name := range raw {
		pipe(t, name, name+".ev", "xw-decode")
		events = append(events, name+".ev")
	}
	r := detailsOf(t, events...)
	if w := r.Watches[0]; w.Hits != n || w.Counted != n || !r.Complete || r.Session.Parts != uint64(len(events)) {
		t.Errorf("%d of %d hits, counted %d, in %d of %d files, gaps %v", w.Hits, n, w.Counted, r.Session.Parts, len(events), r.Gaps)
	}
	second := file + ".2.ev" // of ten files and more it is not the second by name
	one := detailsOf(t, second)
	if one.Watches[0].Hits == 0 || !one.Complete || len(one.Notes) != 1 || !strings.Contains(one.Notes[0], "goes on in another file") {
		t.Errorf("one file has %d hits, gaps %v, notes %q", one.Watches[0].Hits, one.Gaps, one.Notes)
	}
	r = detailsOf(t, slices.DeleteFunc(slices.Clone(events), func(name string) bool { return name == second })...)
	if r.Watches[0].Hits != n-one.Watches[0].Hits || len(r.Gaps) != 1 || r.Gaps[0].Kind != "truncated" || r.Complete {
		t.Errorf("without a file %d hits, gaps %v", r.Watches[0].Hits, r.Gaps)
	}
}

// TestWrongPipes: who leaves a command out of the pipe, or sends a stream to a terminal, is told what to type.
func TestWrongPipes(t *testing.T) {
	d := startDuel(t)
	out, err := exec.Command("sh", "-c", fmt.Sprintf("xw-open --pid %d --watch word --duration 100ms | xw-report", d.PID)).CombinedOutput()
	if text := string(out); err == nil || !strings.Contains(text, `xw-report: read header: this is a stream of "raw" and not of "events"`) ||
		!strings.Contains(text, "hint: xw-open ... | xw-decode | xw-report") {
		t.Errorf("without xw-decode: %v\n%s", err, text)
	}
	hwtest.RequireTool(t, "script")
	raw := filepath.Join(t.TempDir(), "raw")
	if err := os.WriteFile(raw, []byte("xw version=1 stream=\"raw\" session={}\nend info={}\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ command, hint string }{
		{"xw-decode < " + raw, "hint: xw-decode"},
		{"xw-open --pid " + strconv.Itoa(d.PID) + " --watch word", "hint: xw-open"},
		{"xw-report --format pprof < " + raw, "hint: xw-report --format pprof -o FILE"},
	} {
		out, err := exec.Command("script", "-qec", test.command, os.DevNull).CombinedOutput()
		var exit *exec.ExitError
		if text := string(out); !asExit(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(text, "standard output is a terminal") ||
			!strings.Contains(text, test.hint) {
			t.Errorf("%s: %v\n%s", test.command, err, text)
		}
	}
}

func asExit(err error, exit **exec.ExitError) bool {
	e, ok := err.(*exec.ExitError)
	*exit = e
	return ok && e.Sys().(syscall.WaitStatus).Exited()
}
