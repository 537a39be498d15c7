//go:build amd64

package session

import (
	"time"

	"xw/pkg/watch"
	"xw/pkg/wire"
)

// rate keeps each watch to a number of hits per second: one that has had its share of a period is switched off for the
// rest of it, and for those after it whose shares it has had, too.
type rate struct {
	share  uint64   // hits of each watch in a period; 0 for no limit
	second uint64   // hits of each watch in a second
	period uint64   // ns
	start  uint64   // of the present period
	base   []uint64 // hits of each watch that no longer count
	since  []uint64 // when the watch was paused; 0 while it is on
	burst  uint64   // when a watch was switched on last
}

// A tenth of a second spreads the hits that are taken over the second. Below ten hits a second a share would be less
// than one.
const ratePeriod = time.Second / 10

// rateLatency bounds what comes beyond a share: hits are counted when they are drained. A thread makes 100 to 400 of them in a
// millisecond. For as long after a pause the rings are drained without a rest, since a busy target has had its share by then: that
// takes a hundredth of a CPU.
const rateLatency = time.Millisecond

// latency is how long a hit may wait in a ring, for a session that lets it wait for d.
func (r *rate) latency(d time.Duration) time.Duration {
	switch {
	case r.share == 0:
		return d
	case watch.Now()-r.burst < uint64(rateLatency):
		return 0
	}
	return min(d, rateLatency)
}

func newRate(perSecond uint64, watches int) *rate {
	r := &rate{second: perSecond, base: make([]uint64, watches), since: make([]uint64, watches)}
	periods := uint64(time.Second / ratePeriod)
	switch {
	case perSecond == 0:
	case perSecond < periods:
		r.share, r.period = perSecond, uint64(time.Second)
	default:
		r.share, r.period = perSecond/periods, uint64(ratePeriod)
	}
	return r
}

// begin begins a period for a watch with so many hits so far, and tells whether it may have more. What it had beyond its
// share counts on, but not for longer than a second: a watch that is seldom on is worth more than one that is off.
func (r *rate) begin(i int, hits uint64) bool {
	r.base[i] = min(hits, max(r.base[i]+r.share, hits-min(hits, r.second)))
	return hits-r.base[i] < r.share
}

// limitRate pauses watches that have had their share, and resumes them when a period begins.
func (r *run) limitRate() {
	if r.rate.share == 0 {
		return
	}
	now := watch.Now()
	begins := now-r.rate.start >= r.rate.period
	if begins {
		r.rate.start = now
	}
	for i := range r.watches {
		hits := r.hitsOf(i)
		switch {
		case begins:
			if r.rate.begin(i, hits) {
				r.resume(i)
			}
		case r.rate.since[i] == 0 && hits-r.rate.base[i] >= r.rate.share:
			r.eachSlot(i, r.set.Pause)
			r.rate.since[i] = now
		}
	}
}

// resume ends a watch's pause and writes it down.
func (r *run) resume(i int) {
	if r.rate.since[i] == 0 {
		return
	}
	r.eachSlot(i, r.set.Resume)
	r.rate.burst = watch.Now()
	r.writePause(i, r.rate.burst)
}

// writePause writes that a watch was off until to.
func (r *run) writePause(i int, to uint64) {
	if r.rate.since[i] == 0 {
		return
	}
	r.out.endChunk()
	r.out.write(&wire.Pause{Watch: uint32(i), From: r.rate.since[i], To: to})
	r.rate.since[i] = 0
}

func (r *run) hitsOf(i int) (n uint64) {
	r.eachSlot(i, func(slot int) error {
		n += r.set.Delivered(slot)
		return nil
	})
	return n
}

// eachSlot calls f with the session's slots of one watch; an error ends the session.
func (r *run) eachSlot(i int, f func(slot int) error) {
	first := 0
	for _, w := range r.watches[:i] {
		first += len(w.Slots)
	}
	for j := range r.watches[i].Slots {
		if err := f(first + j); err != nil {
			r.stop(StopError, err)
		}
	}
}
