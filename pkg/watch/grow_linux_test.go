//go:build amd64

package watch_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"xw/pkg/hwtest"
	"xw/pkg/watch"
)

// grow has several threads create others that stay. A line of input with a number lets them create that many each, over
// and over a few at a time while no other line comes; "fence" ends that; "fire" has every thread there is store once to
// each of two words, one thread after the other.
const grow = `
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CLONERS 4
volatile unsigned long counter[2];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t fired = PTHREAD_COND_INITIALIZER;
static int round_, waiting, stores;
static atomic_int budget, busy, born;

static void *stay(void *a)
{
	int seen = 0;
	pthread_mutex_lock(&lock);
	seen = round_;
	waiting++;
	for (;;) {
		while (round_ == seen) pthread_cond_wait(&fired, &lock);
		seen = round_;
		counter[0] = counter[1] = ++stores;
	}
}
static void *cloner(void *a)
{
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 16384);
	for (;;) {
		busy++;
		if (atomic_fetch_sub(&budget, 1) > 0) {
			pthread_t t;
			if (pthread_create(&t, &attr, stay, 0)) abort();
			born++;
			busy--;
			usleep(a ? 200 : 1000);
		} else {
			budget++;
			busy--;
			usleep(500);
		}
	}
}
int main(void)
{
	char line[64];
	for (long i = 0; i < CLONERS; i++) { pthread_t t; pthread_create(&t, 0, cloner, (void *)(i & 1)); }
	printf("ready counter=%p\n", (void *)counter); fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		if (!strcmp(line, "fence\n")) {
			budget = -1000000;
			while (busy) usleep(1000);
			usleep(1000);
			while (busy) usleep(1000);
			budget = 0;
			int there = 0;
			while (there < born) { /* a thread that has been created may still wait for a CPU */
				usleep(1000);
				pthread_mutex_lock(&lock);
				there = waiting;
				pthread_mutex_unlock(&lock);
			}
			printf("fenced waiting=%d\n", there);
		} else if (!strcmp(line, "fire\n")) {
			pthread_mutex_lock(&lock);
			int before = stores, n = waiting;
			round_++;
			pthread_cond_broadcast(&fired);
			pthread_mutex_unlock(&lock);
			for (;;) {
				pthread_mutex_lock(&lock);
				int now = stores;
				pthread_mutex_unlock(&lock);
				if (now - before >= n) break;
				usleep(500);
			}
			printf("fired stores=%d\n", n);
		} else {
			budget = atoi(line);
			continue;
		}
		fflush(stdout);
	}
}
`

// TestAttachWhileThreadsAreBorn opens scope inherit, again and again, while four threads create others that stay. Whatever
// part of their creators' watchpoints those have inherited, each is watched once then: of all threads that store once
// after the attach every store is one hit.
func TestAttachWhileThreadsAreBorn(t *testing.T) {
	hwtest.Require(t)
	hwtest.RequireRoot(t)
	program := hwtest.BuildC(t, grow)
	for _, values := range []string{"bpf", "off"} {
		for i := range 12 {
			target := hwtest.Start(t, program)
			addr := target.Uint("counter")
			target.Send("2000")
			time.Sleep(time.Duration(i) * 2 * time.Millisecond)
			s := open(t, target.PID, watch.Config{
				Slots: []watch.Slot{{Addr: addr, Len: 8, Access: "w"}, {Addr: addr + 4, Len: 4, Access: "w"}},
				Scope: "inherit", Values: values, Kernel: "auto",
			})
			target.Send("fence")
			waiting := number(t, target.Line(), "fenced waiting=%d")
			target.Send("fire")
			stores := number(t, target.Line(), "fired stores=%d")
			hits := collect(t, s)
			if err := s.Stop(); err != nil {
				t.Fatal(err)
			}
			if want := 2 * stores; waiting != stores || uint64(len(hits)) != want || len(s.Gaps()) > 0 {
				t.Errorf("%s, %d: %d threads, %d stores over two slots, %d hits, gaps %+v", values, i, waiting, stores, len(hits), s.Gaps())
			}
			s.Close()
			target.Finish()
		}
	}
}

// TestToggleWhileThreadsAreBorn moves a slot of scope inherit, or pauses and resumes it, while four threads create others
// that stay. Once the drains have looked after those that escaped, every thread has the watch where it belongs.
func TestToggleWhileThreadsAreBorn(t *testing.T) {
	hwtest.Require(t)
	hwtest.RequireRoot(t)
	program := hwtest.BuildC(t, grow)
	toggles := map[string]func(s *watch.Set, addr uint64) error{
		"move": func(s *watch.Set, addr uint64) error {
			_, _, err := s.Move(0, addr+8)
			return err
		},
		"resume": func(s *watch.Set, addr uint64) error { return errors.Join(s.Pause(0), s.Resume(0)) },
		"move while paused": func(s *watch.Set, addr uint64) error {
			pause := s.Pause(0)
			_, _, move := s.Move(0, addr+8)
			return errors.Join(pause, move, s.Resume(0))
		},
	}
	for _, values := range []string{"bpf", "off"} {
		for name, toggle := range toggles {
			gaps := 0
			for i := range 6 {
				target := hwtest.Start(t, program)
				addr := target.Uint("counter")
				s := open(t, target.PID, watch.Config{
					Slots: []watch.Slot{{Addr: addr, Len: 8, Access: "w"}}, Scope: "inherit", Values: values, Kernel: "auto",
				})
				target.Send("2000")
				for s.Born() == 0 { // on a busy machine it takes a while until one is created at all
					collect(t, s)
					time.Sleep(time.Millisecond)
				}
				for range 3 {
					time.Sleep(time.Duration(5+i) * time.Millisecond)
					if err := toggle(s, addr); err != nil {
						t.Fatal(err)
					}
					collect(t, s)
				}
				target.Send("fence")
				waiting := number(t, target.Line(), "fenced waiting=%d")
				collect(t, s)
				target.Send("fire")
				stores := number(t, target.Line(), "fired stores=%d")
				hits := collect(t, s)
				where := map[uint64]uint64{}
				for _, h := range hits {
					where[h.addr]++
				}
				want := addr
				if name != "resume" {
					want += 8
				}
				if waiting != stores || where[want] != stores || len(where) != 1 {
					t.Errorf("%s, values %s: %d threads, %d stores at %#x, hits by address %v", name, values, waiting, stores, want, where)
				}
				gaps += len(s.Gaps())
				s.Close()
				target.Finish()
			}
			t.Logf("%s, values %s: %d gaps", name, values, gaps)
		}
	}
}

// number reads the one number of a line.
func number(t *testing.T, line, format string) (n uint64) {
	t.Helper()
	if _, err := fmt.Sscanf(line, format, &n); err != nil {
		t.Fatalf("line %q: %v", line, err)
	}
	return n
}
