package report

import (
	"cmp"
	"fmt"
	"slices"

	"xw/pkg/wire"
)

// allGaps lists everything that the report does not cover: first what concerns the whole and the counts of the watches,
// then in order of time.
func (m *Model) allGaps() []Gap {
	gaps := []Gap{}
	if m.broken != nil {
		gaps = append(gaps, Gap{Kind: gapTruncated, Detail: Text(m.broken.Error()), FromNS: num(m.last)})
	}
	var lost uint64
	counted := true
	for _, w := range m.watches {
		gaps = append(gaps, m.countGaps(w)...)
		lost += w.counts.Lost
		counted = counted && w.counted()
	}
	timed := append(m.lostGaps(lost, counted), m.gaps.items...)
	for _, w := range m.watches {
		timed = append(timed, m.blindGaps(w)...)
	}
	slices.SortStableFunc(timed, func(a, b Gap) int { return cmp.Compare(a.FromNS.V, b.FromNS.V) })
	return m.gaps.fold(append(gaps, timed...))
}

// countGaps compares the hits of a watch with what the kernel counted.
func (m *Model) countGaps(w *watch) []Gap {
	var gaps []Gap
	c := w.totals()
	if !w.counted() {
		if m.end != nil && !w.hasCounts {
			gaps = append(gaps, uncounted(w))
		}
		return gaps
	}
	if c.Lost > 0 {
		from, to := m.lost.extent()
		gaps = append(gaps, Gap{Kind: gapLost, Count: num(c.Lost), Watch: num(w.id), FromNS: from, ToNS: to,
			Detail: "hits found no room in the rings"})
	}
	if have, want := w.hits+c.AfterStop+c.Lost, c.Counted; have != want {
		gaps = append(gaps, Gap{Kind: gapCountMismatch, Count: num(distance(have, want)), Watch: num(w.id),
			Detail: Text(mismatch(w, m.session.Callchain))})
	}
	return gaps
}

// uncounted is the gap of a watch whose totals a stream does not tell.
func uncounted(w *watch) Gap {
	return Gap{Kind: gapCountMismatch, Watch: num(w.id), Detail: "the stream has no counts of this watch to compare with"}
}

func distance(a, b uint64) uint64 { return max(a, b) - min(a, b) }

// mismatch says in words how hits and counts disagree, and where the difference arose if the other counters tell.
func mismatch(w *watch, callchain bool) string {
	c := &w.counts
	s := fmt.Sprintf("the kernel counted %d, and %d hits + %d after the stop + %d lost are %d",
		c.Counted, w.hits, c.AfterStop, c.Lost, w.hits+c.AfterStop+c.Lost)
	if c.Missed > 0 {
		s += fmt.Sprintf("; the BPF program was not run for %d", c.Missed)
		if callchain && w.Access != "w" && w.Access != "x" {
			s += ", which may be the kernel's own reads of the callers' frames for the call chains (try it without --callchain)"
		}
	}
	if c.Emitted > w.hits+c.AfterStop {
		s += fmt.Sprintf("; %d went into the rings, and %d of them are not in this stream", c.Emitted, c.Emitted-w.hits)
	}
	return s
}

// lostGaps lists the intervals in which records were lost. Where counts say how many hits of each watch that were, an
// interval has no count of its own, so that the counts of all gaps can be added up.
func (m *Model) lostGaps(lost uint64, counted bool) []Gap {
	var gaps []Gap
	for _, s := range m.lost.spans {
		of := fmt.Sprint("CPU ", s.cpu)
		if m.lost.thread {
			of = "a thread"
		}
		g := Gap{Kind: gapLost, FromNS: Num(wire.Opt{V: s.from, OK: s.from != 0}), ToNS: num(s.to),
			Detail: Text(fmt.Sprintf("%d records of %s found no room", s.n, of))}
		if !counted {
			g.Count = num(s.n)
		}
		gaps = append(gaps, g)
	}
	switch {
	case !counted && m.lost.more > 0:
		gaps = append(gaps, Gap{Kind: gapLost, Count: num(m.lost.more), Detail: "records in further intervals found no room"})
	case counted && m.lost.total > lost:
		gaps = append(gaps, Gap{Kind: gapLost, Count: num(m.lost.total - lost),
			Detail: "records that are no hits (threads, mappings) found no room"})
	}
	return gaps
}

// extent is the time from the first to the last lost record.
func (l *lostRecords) extent() (from, to Num) {
	if len(l.spans) == 0 {
		return Num{}, Num{}
	}
	first := l.spans[0].from
	for _, s := range l.spans {
		first = min(first, s.from)
		to = num(max(to.V, s.to))
	}
	return Num(wire.Opt{V: first, OK: first != 0}), to
}

// blindGaps lists the intervals in which a level of a chain was not armed where the pointer pointed.
func (m *Model) blindGaps(w *watch) []Gap {
	var gaps []Gap
	list, more := m.blindSpans(w)
	for _, v := range list {
		gaps = append(gaps, Gap{Kind: gapBlind, Watch: num(w.id), FromNS: num(v.from), ToNS: num(v.to), Detail: Text(v.detail)})
	}
	if more > 0 {
		gaps = append(gaps, Gap{Kind: gapBlind, Watch: num(w.id), Count: num(more), Detail: "further intervals"})
	}
	return gaps
}

// blindSpans returns the blind intervals of a level, those that are still open included.
func (m *Model) blindSpans(w *watch) ([]interval, uint64) {
	b := m.blindness(w)
	n := min(len(b.list), MaxEntries)
	return b.list[:n], b.dropped.n + uint64(len(b.list)-n)
}

// blindTime sums them.
func (m *Model) blindTime(w *watch) (total, longest uint64) {
	b := m.blindness(w)
	return b.total, b.longest
}

func (m *Model) blindness(w *watch) blindness {
	b := w.bind.blind
	b.list = slices.Clone(b.list)
	if w.bind.since.OK {
		b.add(interval{from: w.bind.since.V, to: m.until(),
			detail: cmp.Or(w.bind.reason, "the watch was not moved to where the pointer points")})
	}
	if w.stray.open && !w.allSeen() {
		b.add(interval{from: w.stray.since, to: m.until(), detail: w.stray.reason})
	}
	return b
}

// allSeen tells that nothing speaks for w being astray but that records were lost, and that by the counts none of them was
// a hit above w.
func (w *watch) allSeen() bool {
	if w.stray.reason != overlooked {
		return false
	}
	for p := w.parent; p != nil; p = p.parent {
		if !p.counted() || p.counts.Lost > 0 {
			return false
		}
	}
	return true
}

// until is when watching ended, as far as is known.
func (m *Model) until() uint64 {
	if m.end != nil && m.end.EndNS != 0 {
		return m.end.EndNS
	}
	return m.last
}
