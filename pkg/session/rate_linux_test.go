//go:build amd64

package session

import "testing"

// TestRate: what a watch has beyond its share is taken from the shares of the periods that follow, up to a second's.
func TestRate(t *testing.T) {
	const watch = 1
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
			r := newRate(test.perSecond, watch+1)
			const before = 12345
			r.base[watch] = before
			hits, off := before+test.had, 0
			for !r.begin(watch, hits) {
				off++
			}
			more := r.share - (hits - r.base[watch])
			if off != test.off || more != test.more {
				t.Errorf("off for %d periods, then %d hits; want %d, %d", off, more, test.off, test.more)
			}
		})
	}
}
