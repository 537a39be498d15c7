//go:build amd64

package watch

import "fmt"

// plainCount counts a slot's own samples, which come where no BPF program is.
type plainCount struct{ own, foreign, early uint64 }

// Totals counts a slot's hits. It is exact after Stop and a last Drain.
func (s *Set) Totals(slot int) (Totals, error) {
	for range 10 {
		before, _, err := s.scope.count(slot)
		if err != nil {
			return Totals{}, err
		}
		var t tally
		if s.progs != nil {
			if t, err = s.progs.tally(slot); err != nil {
				return Totals{}, err
			}
		}
		after, lost, err := s.scope.count(slot)
		if err != nil {
			return Totals{}, err
		}
		if before == after {
			totals := s.totals(slot, after, lost, t)
			s.splitLost(slot, &totals)
			return totals, nil
		}
	}
	return Totals{}, fmt.Errorf("count slot %d: hits go on after the watchpoints were switched off", slot)
}

// splitLost tells what was lost beyond the limit from what was before.
func (s *Set) splitLost(slot int, t *Totals) {
	if !s.Full() {
		return
	}
	before := min(t.Lost, s.limit.lost[slot])
	t.Lost, t.CutLost = before, t.Lost-before
}

func (s *Set) totals(slot int, count, lost uint64, t tally) Totals {
	own, foreign, early := s.plain[slot].own, s.plain[slot].foreign, s.plain[slot].early
	if s.progs == nil {
		return Totals{Counted: count - min(count, foreign+early), Emitted: own, Lost: lost, Foreign: foreign, LostKnown: s.attrs.lost}
	}
	known := t.Hits + t.Foreign + t.Stopped + t.Early + own + foreign + early
	missed := count - min(count, known)
	return Totals{
		Counted: t.Hits + own + missed, Emitted: t.Emitted + own, Lost: t.Failed, Stopped: t.Stopped,
		Foreign: t.Foreign + foreign, Missed: missed, LostKnown: true,
	}
}

// Lost is how many records of a slot the rings had no room for so far. What it tells stays lost, whatever Limit allows.
func (s *Set) Lost(slot int) (lost uint64, err error) {
	if s.progs != nil {
		var t tally
		t, err = s.progs.tally(slot)
		lost = t.Failed
	} else {
		_, lost, err = s.scope.count(slot)
	}
	s.limit.lossy = s.limit.lossy || lost > 0
	return lost, err
}
