//go:build amd64

package session

import (
	"testing"
	"time"

	"xw/pkg/watch"
)

// TestRate: what a watch has beyond its share is taken from the shares of the periods that follow, up to a second's.
func TestRate(t *testing.T) {
	const second = 1 // the watch that is looked at
	for _, test := range []struct {
		name      string
		perSecond uint64
		had       uint64 // in the first period; nothing is had while it is off
		off       int    // periods that the watch is off then
		more      uint64 // how many it may have in the period after that
	}{
		{"less than its share", 1000, 99, 0, 100},
		{"its share", 1000, 100, 0, 100},
		{"half of the next one too", 1000, 150, 0, 50},
		{"just the next one too", 1000, 200, 1, 100},
		{"several", 1000, 860, 7, 40},
		{"more than in a second", 1000, 100_000, 10, 100},
		{"a few in a second", 5, 7, 0, 3},
		{"far more than a few", 5, 7000, 1, 5},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRate(test.perSecond, second+1)
			const before = 12345
			r.base[second] = before
			hits, off := before+test.had, 0
			for !r.begin(second, hits) {
				off++
			}
			more := r.share - (hits - r.base[second])
			if off != test.off || more != test.more {
				t.Errorf("off for %d periods, then %d hits; want %d, %d", off, more, test.off, test.more)
			}
		})
	}
}

// TestRateLatency drains without a rest after a pause, and no watch for longer than that lasts.
func TestRateLatency(t *testing.T) {
	const usual = 10 * time.Millisecond
	r := newRate(0, 1)
	r.burst = watch.Now()
	if d := r.latency(usual); d != usual {
		t.Errorf("without a limit %v", d)
	}
	r = newRate(100, 1)
	if d := r.latency(usual); d != rateLatency {
		t.Errorf("long after a pause %v", d)
	}
	if d := r.latency(rateLatency / 2); d != rateLatency/2 {
		t.Errorf("long after a pause %v, asked for less", d)
	}
	for until := time.Now().Add(time.Minute); ; { // it may take a while from one line to the next
		r.burst = watch.Now()
		if r.latency(usual) == 0 {
			break
		}
		if time.Now().After(until) {
			t.Fatal("it rests just after a pause")
		}
	}
}
