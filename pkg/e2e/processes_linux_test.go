//go:build amd64

package e2e

import "testing"

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
