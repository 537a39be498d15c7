//go:build amd64

package e2e

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"xw/pkg/hwtest"
)

// maxRSS is the most memory that xw-open may take, in KiB: 64 MiB, in which the rings of hits take 32; on more than 8 CPUs those
// have 4 MiB each.
func maxRSS(t *testing.T) int {
	t.Helper()
	out, err := exec.Command("getconf", "_NPROCESSORS_ONLN").Output()
	if err != nil {
		t.Fatal(err)
	}
	cpus, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	return 32<<10 + max(32<<10, cpus*4<<10)
}

// TestOneShotThreads creates 2000 threads that store once and end.
func TestOneShotThreads(t *testing.T) {
	eachMode(t, func(t *testing.T, m mode) {
		a := startActor(t)
		s := attach(t, a.PID, append(m.args, "--watch", "counter")...)
		a.do("oneshot", 2000)
		seen := s.stop()
		seen.wantHits(0, 2000)
		seen.wantComplete()
		if n := len(seen.Watches[0].Threads); n != 2000 {
			t.Errorf("%d threads with hits, want 2000", n)
		}
		if n := seen.Session.ThreadsSeen; n != 2001 {
			t.Errorf("%d threads seen, want 2001", n)
		}
		if m.bpf() {
			seen.wantSequence(0, 1)
		}
	})
}

// TestLiveThreads attaches to 2000 threads, and has each store.
func TestLiveThreads(t *testing.T) {
	eachMode(t, func(t *testing.T, m mode) {
		const threads = 2000
		a := startActor(t)
		a.do("live", threads)
		s := attach(t, a.PID, append(m.args, "--watch", "counter", "--watch", "upper=counter+4:4")...)
		if s.ready["threads"] != strconv.Itoa(threads+1) {
			t.Errorf("ready with %s threads, want %d", s.ready["threads"], threads+1)
		}
		a.do("fire")
		a.do("live", 100) // born of the main thread, which is one of those
		a.do("fire")
		rss := s.rss()
		seen := s.stop()
		seen.wantHits(0, 2*threads+100)
		seen.wantHits(1, 2*threads+100)
		seen.wantComplete()
		if m.bpf() {
			seen.wantSequence(0, 1)
		}
		t.Logf("%d KiB", rss)
		if most := maxRSS(t); rss > most {
			t.Errorf("xw-open took %d KiB, at most %d are granted", rss, most)
		}
	})
}

// TestThreadChurn creates threads at some 1000 a second.
func TestThreadChurn(t *testing.T) {
	eachMode(t, func(t *testing.T, m mode) {
		const threads = 3000
		a := startActor(t)
		s := attach(t, a.PID, append(m.args, "--watch", "counter")...)
		a.do("churn", threads, 700)
		rss := s.rss()
		seen := s.stop()
		seen.wantHits(0, threads)
		seen.wantComplete()
		if m.bpf() {
			seen.wantSequence(0, 1)
		}
		if most := maxRSS(t); rss > most {
			t.Errorf("xw-open took %d KiB, at most %d are granted", rss, most)
		}
	})
}

// TestSuccession has each thread create the next one and end: those that were there at the attach are soon gone.
func TestSuccession(t *testing.T) {
	eachMode(t, func(t *testing.T, m mode) {
		a := startActor(t)
		s := attach(t, a.PID, append(m.args, "--watch", "counter")...)
		a.do("succeed", 500)
		seen := s.stop()
		seen.wantHits(0, 500)
		seen.wantComplete()
	})
}

// TestDefaultDescriptors attaches to 300 threads with two slots under the descriptor limit that a shell has.
func TestDefaultDescriptors(t *testing.T) {
	hwtest.Require(t)
	hwtest.RequireRoot(t)
	a := startActor(t)
	a.do("live", 300)
	s := attachBy(t, shell("ulimit -Sn 1024; exec xw-open --pid "+strconv.Itoa(a.PID)+" --scope inherit --watch counter --watch upper=counter+4:4"))
	a.do("fire")
	seen := s.stop()
	seen.wantHits(0, 300)
	seen.wantHits(1, 300)
	seen.wantComplete()
}
