//go:build amd64

package session

import (
	"time"

	"xw/pkg/watch"
)

// rounds says what round records have to cover.
type rounds struct {
	covered uint64 // time of the newest round
	brought uint64 // time after the newest drain that brought records
	binding uint64 // time of the newest binding
}

// inFlight is how much earlier than the clock a round claims to be: a hit takes its time before its record is in the
// ring, and a record that is on its way while the rings are drained must not be older than the round. The way took under
// 10 us wherever it was seen.
const inFlight = 20 * time.Microsecond

// urgent is the time of the newest hit on a pointer slot or new binding: somebody waits for the round that covers it.
func (r *run) urgent() uint64 { return max(r.set.Woke(), r.rounds.binding) }

// drain takes what there is into the stream, with a round record when the rings were emptied and there is something that
// an earlier round has not covered.
func (r *run) drain(room func() bool) {
	for _, src := range r.set.NewSources() {
		r.out.endChunk()
		r.writeSource(src)
	}
	r.writeBounds()
	t, whole, brought := r.empty(room)
	if urgent := r.urgent(); whole && urgent > max(t, r.rounds.covered) {
		// It is so new that a round covers it only when it is made a moment later.
		for until := min(urgent, watch.Now()) + uint64(inFlight); watch.Now() < until; {
		}
		var more bool
		t, whole, more = r.empty(room)
		brought = brought || more
	}
	r.writeCode()
	if whole && (brought || max(r.rounds.brought, r.urgent()) > r.rounds.covered) {
		r.out.endRound(t)
		r.out.flush()
		r.rounds.covered = t
	}
	if brought {
		r.rounds.brought = watch.Now()
	}
}

// empty takes what the rings hold. If whole is true, a round of time t may follow.
func (r *run) empty(room func() bool) (t uint64, whole, brought bool) {
	t = watch.Now() - uint64(inFlight)
	whole, err := r.set.Drain(room, func(cpu int, rec []byte) {
		brought = true
		r.execed = r.execed || r.set.Execed(rec)
		if ip, ok := r.set.PlainIP(rec); ok {
			r.sights.see(ip)
		}
		r.out.record(cpu, rec)
	})
	if err != nil {
		r.stop(StopError, err)
	}
	return t, whole, brought
}
