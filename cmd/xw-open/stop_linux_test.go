package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"xw/pkg/hwtest"
	"xw/pkg/wire"
)

// ways are the combinations of scope and values that hold for root.
var ways = []struct{ scope, values string }{{"cpu", "bpf"}, {"cpu", "off"}, {"inherit", "bpf"}, {"inherit", "off"}, {"thread", "off"}}

// TestStopDuration stops after a time and not before: what is stored in that time is hit. On a machine where the stores come
// too late it tries a longer one.
func TestStopDuration(t *testing.T) {
	hwtest.Require(t)
	for d := 600 * time.Millisecond; d < hangs; d *= 4 {
		w := startWorker(t)
		begin := time.Now()
		o := xwOpen(t, "--pid", w.pid(), "--watch", "counter", "--duration", d.String())
		o.ready()
		w.do("n 100")
		inTime := time.Since(begin) <= d // and the duration began later than that
		s := o.end(0)
		s.stopped("duration")
		s.accounted(0)
		if s.end.ElapsedNS < uint64(d) || s.end.EndNS != s.header.StartNS+s.end.ElapsedNS {
			t.Errorf("start %d, end %+v", s.header.StartNS, s.end)
		}
		if n := w.do("n 1"); n != 101 {
			t.Errorf("the target counted %d", n)
		}
		if inTime {
			s.complete(0, 100)
			return
		}
	}
	t.Error("no stores came in time")
}

// TestStopMaxEvents delivers exactly as many hits of a flood as were asked for, and accounts for all others.
func TestStopMaxEvents(t *testing.T) {
	hwtest.Require(t)
	for _, way := range ways {
		for _, n := range []int{1, 1000} {
			t.Run(fmt.Sprintf("%s %s %d", way.scope, way.values, n), func(t *testing.T) {
				w := startWorker(t)
				w.do("h")
				o := xwOpen(t, "--pid", w.pid(), "--watch", "counter", "--scope", way.scope, "--values", way.values, "--max-events", fmt.Sprint(n))
				s := o.end(0)
				s.stopped("max_events")
				s.complete(0, n)
				if len(s.samples) != n {
					t.Errorf("%d samples", len(s.samples))
				}
				w.do("c")
			})
		}
	}
}

// TestStopMaxEventsInSmallRings has more hits than the rings have room for come before the watchpoints are off. What finds no
// room then is no gap, as it comes after the hits that were asked for, which find an empty ring.
func TestStopMaxEventsInSmallRings(t *testing.T) {
	hwtest.Require(t)
	for _, way := range ways {
		t.Run(way.scope+" "+way.values, func(t *testing.T) {
			for range 5 {
				w := startWorker(t)
				o := xwOpen(t, "--pid", w.pid(), "--watch", "counter", "--scope", way.scope, "--values", way.values, "--max-events", "3", "--ring-size", "65536")
				o.ready()
				w.do("n 20000")
				s := o.end(0)
				s.stopped("max_events")
				s.complete(0, 3)
			}
		})
	}
}

// TestStopMaxEventsOfAllWatches counts the hits of all watches together.
func TestStopMaxEventsOfAllWatches(t *testing.T) {
	hwtest.Require(t)
	w := startWorker(t)
	o := xwOpen(t, "--pid", w.pid(), "--watch", "counter", "--watch", "bytes:1", "--max-events", "30")
	o.ready()
	for range 20 {
		w.do("n 1")
		w.do("b 1")
	}
	s := o.end(0)
	s.stopped("max_events")
	if hits := s.report.Watches[0].Hits + s.report.Watches[1].Hits; hits != 30 || !s.report.Complete {
		t.Errorf("%d hits, complete %v, gaps %+v", hits, s.report.Complete, s.report.Gaps)
	}
}

func TestStopTargetExited(t *testing.T) {
	hwtest.Require(t)
	for _, way := range ways {
		for _, how := range []string{"exit", "kill"} {
			t.Run(fmt.Sprintf("%s %s %s", way.scope, way.values, how), func(t *testing.T) {
				w := startWorker(t)
				o := xwOpen(t, "--pid", w.pid(), "--watch", "counter", "--scope", way.scope, "--values", way.values)
				o.ready()
				w.do("n 500")
				if how == "exit" {
					w.Send("q 3")
				} else {
					w.Signal(syscall.SIGKILL)
				}
				s := o.end(0)
				s.stopped("target_exited")
				s.complete(0, 500)
			})
		}
	}
}

// TestStopTargetExec ends at an exec, also by another thread than the first. The new program, which is the same one at the
// same addresses, stores too: nothing of that counts.
func TestStopTargetExec(t *testing.T) {
	hwtest.Require(t)
	program := hwtest.BuildC(t, worker, "-no-pie")
	for _, way := range ways {
		for _, how := range []string{"x", "X"} {
			t.Run(fmt.Sprintf("%s %s %s", way.scope, way.values, how), func(t *testing.T) {
				w := target{hwtest.Start(t, program)}
				o := xwOpen(t, "--pid", w.pid(), "--watch", "counter", "--scope", way.scope, "--values", way.values)
				o.ready()
				w.do("n 500")
				w.Send(how + " " + program)
				if line := w.Line(); !strings.HasPrefix(line, "ready ") {
					t.Fatalf("after exec: %q", line)
				}
				if n := w.do("n 700"); n != 700 {
					t.Errorf("the new program counted %d", n)
				}
				s := o.end(0)
				s.stopped("target_exec")
				if way.scope == "thread" && how == "X" {
					// The new thread may have had no events yet, which is a gap: then no record tells of the exec.
					if w := s.report.Watches[0]; w.Hits != 500 || w.Counted.V != 500 {
						t.Errorf("%d hits, counted %d", w.Hits, w.Counted.V)
					}
					return
				}
				s.complete(0, 500)
				if n := len(all[*wire.Exec](s)); n != 1 {
					t.Errorf("%d exec records", n)
				}
			})
		}
	}
}

func TestStopInterrupted(t *testing.T) {
	hwtest.Require(t)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			w := startWorker(t)
			o := xwOpen(t, "--pid", w.pid(), "--watch", "counter")
			o.ready()
			w.do("n 100")
			o.signal(sig)
			s := o.end(0)
			s.stopped("interrupted")
			s.complete(0, 100)
		})
	}
}

// TestHangUpIsIgnored starts xw-open by nohup, as SIGHUP being ignored is inherited.
func TestHangUpIsIgnored(t *testing.T) {
	hwtest.Require(t)
	hwtest.RequireTool(t, "nohup")
	w := startWorker(t)
	cmd := command(t, "--pid", w.pid(), "--watch", "counter")
	cmd.Args = append([]string{"nohup"}, cmd.Args...)
	cmd.Path, _ = exec.LookPath("nohup")
	o := start(t, cmd)
	o.collect()
	o.ready()
	o.signal(syscall.SIGHUP)
	w.do("n 100")
	o.signal(syscall.SIGTERM)
	s := o.end(0)
	s.stopped("interrupted")
	s.complete(0, 100)
}

// TestInterruptUnderLoad stops a flood: the report is whole and correct.
func TestInterruptUnderLoad(t *testing.T) {
	hwtest.Require(t)
	for _, way := range ways {
		t.Run(way.scope+" "+way.values, func(t *testing.T) {
			w := startWorker(t)
			w.do("h")
			o := xwOpen(t, "--pid", w.pid(), "--watch", "counter", "--scope", way.scope, "--values", way.values)
			o.ready()
			for before := w.do("n 1"); w.do("n 1") < before+1000; { // the flood has begun
			}
			begin := time.Now()
			o.signal(syscall.SIGINT)
			o.code()
			took := time.Since(begin)
			s := o.end(0)
			t.Logf("%d hits, ended after %v", len(s.samples), took)
			s.stopped("interrupted")
			if len(s.samples) == 0 {
				t.Error("no hits")
			}
			s.accounted(0)
			w.do("c")
		})
	}
}

// TestDownstreamCloses: the reader goes away. That is a quiet end, noticed without a hit.
func TestDownstreamCloses(t *testing.T) {
	hwtest.Require(t)
	for _, hot := range []bool{false, true} {
		t.Run(fmt.Sprintf("hot %v", hot), func(t *testing.T) {
			w := startWorker(t)
			o := start(t, command(t, "--pid", w.pid(), "--watch", "counter"))
			o.ready()
			if hot {
				w.do("h")
				if _, err := o.out.Read(make([]byte, 4096)); err != nil {
					t.Fatal(err)
				}
			}
			o.out.Close()
			if code := o.code(); code != 0 || len(o.said) != 1 {
				t.Errorf("exit %d, said %q", code, o.said)
			}
			if hot {
				w.do("c")
			}
			w.do("n 1")
		})
	}
}

// TestStopError: the stream cannot be written.
func TestStopError(t *testing.T) {
	hwtest.Require(t)
	w := startWorker(t)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("needs /dev/full: %v", err)
	}
	defer full.Close()
	cmd := command(t, "--pid", w.pid(), "--watch", "counter")
	cmd.Stdout = full
	o := start(t, cmd)
	if code := o.code(); code != 1 || o.said[len(o.said)-1] != "xw-open: standard output: write /dev/stdout: no space left on device" {
		t.Errorf("exit %d, said %q", code, o.said)
	}
	o = start(t, command(t, "--pid", w.pid(), "--watch", "counter", "-o", "/dev/full"))
	if code := o.code(); code != 1 || o.said[len(o.said)-1] != "xw-open: write /dev/full: no space left on device" {
		t.Errorf("exit %d, said %q", code, o.said)
	}
	w.do("n 1")
}

// TestStalledReader never reads: a stop takes no longer for that than it may, and says that the end is missing. The target
// goes on all the time.
func TestStalledReader(t *testing.T) {
	hwtest.Require(t)
	for _, way := range ways {
		t.Run(way.scope+" "+way.values, func(t *testing.T) {
			w := startWorker(t)
			o := start(t, command(t, "--pid", w.pid(), "--watch", "counter", "--scope", way.scope, "--values", way.values))
			o.ready()
			w.do("n 50000") // more than the pipe and the queue have room for
			w.do("h")
			begin := time.Now()
			o.signal(syscall.SIGINT)
			code := o.code()
			t.Logf("ended after %v", time.Since(begin))
			want := "xw-open: write the end of the stream: the reader of standard output does not read: hits are lost and the stream has no end record"
			if code != 1 || o.said[len(o.said)-1] != want {
				t.Errorf("exit %d, said %q", code, o.said)
			}
			if w.do("c") == 0 {
				t.Error("the target stood still")
			}
		})
	}
}

// TestReaderResumes stalls until hits are lost, and then reads on: what was lost is counted exactly.
func TestReaderResumes(t *testing.T) {
	hwtest.Require(t)
	for _, way := range ways {
		t.Run(way.scope+" "+way.values, func(t *testing.T) {
			w := startWorker(t)
			o := start(t, command(t, "--pid", w.pid(), "--watch", "counter", "--scope", way.scope, "--values", way.values, "--ring-size", "65536"))
			o.ready()
			w.do("n 200000")
			o.collect()
			n := w.do("n 1000")
			o.signal(syscall.SIGTERM)
			s := o.end(0)
			s.stopped("interrupted")
			s.accounted(0)
			c := s.counts[0]
			t.Logf("%d stores, %d samples, counts %+v", n, len(s.samples), c)
			if c.Counted != n || c.Lost == 0 || uint64(len(s.samples))+c.Lost != n {
				t.Errorf("%d stores, %d samples, counts %+v", n, len(s.samples), c)
			}
		})
	}
}
