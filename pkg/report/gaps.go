package report

import (
	"fmt"
	"slices"
	"strings"

	"xw/pkg/wire"
)

// Kinds of gaps.
const (
	gapLost          = "lost"
	gapThrottled     = "throttled"
	gapMalformed     = "malformed"
	gapTruncated     = "truncated"
	gapBlind         = "blind"
	gapPaused        = "paused"
	gapCountMismatch = "count_mismatch"
	gapControl       = "control"

	gapChangedWithoutHit = "changed_without_hit"
)

// gapList keeps the first MaxEntries gaps that records told of, and of the others their number by kind.
type gapList struct {
	items []Gap
	more  map[Text]uint64
}

// add appends g and returns its index, or -1 if it was folded.
func (l *gapList) add(g Gap) int {
	if len(l.items) < MaxEntries {
		l.items = append(l.items, g)
		return len(l.items) - 1
	}
	if l.more == nil {
		l.more = map[Text]uint64{}
	}
	kind := g.Kind
	if _, ok := l.more[kind]; !ok && len(l.more) >= 64 { // kinds of gap records are not bounded by us
		kind = "other"
	}
	l.more[kind]++
	return -1
}

// fold cuts gaps to MaxEntries and appends one that stands for those cut off and those that were never kept.
func (l *gapList) fold(gaps []Gap) []Gap {
	more := map[Text]uint64{}
	var n uint64
	for kind, count := range l.more {
		more[kind] += count
		n += count
	}
	if len(gaps) > MaxEntries {
		for _, g := range gaps[MaxEntries:] {
			more[g.Kind]++
			n++
		}
		gaps = gaps[:MaxEntries]
	}
	if n == 0 {
		return gaps
	}
	kinds := make([]string, 0, len(more))
	most := Text("")
	for kind, count := range more {
		kinds = append(kinds, fmt.Sprintf("%s %d", kind, count))
		if count > more[most] || count == more[most] && kind < most {
			most = kind
		}
	}
	slices.Sort(kinds)
	return append(gaps, Gap{Kind: most, Count: num(n),
		Detail: Text(fmt.Sprintf("%d more gaps: %s", n, strings.Join(kinds, ", ")))})
}

// addTrouble takes what tells that something is missing.
func (m *Model) addTrouble(rec wire.Record) {
	switch r := rec.(type) {
	case *wire.Lost:
		m.see(r.Time)
		from := m.lost.add(r)
		m.interrupt()
		for _, w := range m.watches {
			w.missed(max(from, w.bind.blind.start))
		}
	case *wire.Throttle:
		m.see(r.Time)
		m.throttle(r)
	case *wire.Malformed:
		m.gaps.add(Gap{Kind: gapMalformed, Count: num(1), Detail: Text(fmt.Sprintf(
			"record at byte %d of the raw stream: %s: needs %d bytes and has %d", r.Offset, r.Reason, r.Needed, r.Available))})
		m.interrupt()
	case *wire.Pause:
		m.see(r.To)
		if w := m.watch(r.Watch, "pause"); w != nil && r.To >= r.From {
			w.paused += r.To - r.From
		}
		m.gaps.add(Gap{Kind: gapPaused, Watch: num(uint64(r.Watch)), FromNS: num(r.From), ToNS: num(r.To)})
		m.interrupt()
	case *wire.ControlRecord:
		m.see(r.Time)
		m.gaps.add(Gap{Kind: gapControl, Count: num(1), Detail: Text(r.Reason), FromNS: num(r.Time), ToNS: num(r.Time)})
	case *wire.Late:
		m.late += r.N
	case *wire.Gap:
		m.see(r.Time)
		m.gap(r)
	}
}

// Malformed says that a record of the stream could not be read.
func (m *Model) Malformed(err error) {
	m.gaps.add(Gap{Kind: gapMalformed, Count: num(1), Detail: Text(err.Error())})
	m.interrupt()
}

// gap takes a gap record. A blind interval that the records of the re-binding tell of too is one.
func (m *Model) gap(r *wire.Gap) {
	if r.Reason == gapBlind && r.Watch.OK && r.From.OK && r.Watch.V < uint64(len(m.watches)) {
		b := &m.watches[r.Watch.V].bind
		if r.To.OK {
			b.blind.add(interval{from: r.From.V, to: r.To.V, detail: r.Detail})
		} else {
			b.lose(r.From.V, r.Detail)
		}
		return
	}
	if r.Reason == gapLost && r.Watch.OK && r.From.OK && r.Watch.V < uint64(len(m.watches)) {
		w := m.watches[r.Watch.V]
		w.interrupt()
		w.missed(r.From.V)
	}
	m.gaps.add(Gap{Kind: Text(r.Reason), Count: Num(r.Count), Watch: Num(r.Watch), Detail: Text(r.Detail),
		FromNS: Num(r.From), ToNS: Num(r.To), TID: Num(r.TID)})
}

// throttled is what the kernel takes no samples of.
type throttled struct {
	cpu   uint32
	watch wire.Opt
}

// throttle opens or closes the interval in which the kernel took no samples on a CPU.
func (m *Model) throttle(r *wire.Throttle) {
	key := throttled{r.CPU, r.Watch}
	if r.On {
		m.paused[key] = 1 + m.gaps.add(Gap{Kind: gapThrottled, Watch: Num(r.Watch), FromNS: num(r.Time),
			Detail: Text(fmt.Sprintf("the kernel took no samples on CPU %d", r.CPU))})
		m.interrupt()
		return
	}
	if i := m.paused[key]; i > 0 {
		m.gaps.items[i-1].ToNS = num(r.Time)
	}
	delete(m.paused, key)
}

// interrupt says that hits are missing here, so that neighbours in the stream are none in time.
func (m *Model) interrupt() {
	for _, w := range m.watches {
		w.interrupt()
	}
}

// lostRecords are the records that found no room in a ring.
type lostRecords struct {
	total  uint64
	spans  []lostSpan         // the first MaxEntries
	more   uint64             // records lost in spans beyond
	perCPU map[uint32]*uint64 // time of the last record that a CPU delivered
	recent *uint64            // that of recentCPU; nil before the first
	thread bool               // rings are those of threads: when one delivered its last record is not known

	recentCPU uint32
}

type lostSpan struct {
	cpu      uint32
	from, to uint64
	n        uint64
}

// seen notes that a record of a CPU came through.
func (l *lostRecords) seen(cpu uint32, t uint64) {
	last := l.last(cpu)
	*last = max(*last, t)
}

// last is the time of the last record that a CPU delivered.
func (l *lostRecords) last(cpu uint32) *uint64 {
	if l.recent != nil && l.recentCPU == cpu {
		return l.recent
	}
	t := l.perCPU[cpu]
	if t == nil {
		t = new(uint64)
		l.perCPU[cpu] = t
	}
	l.recent, l.recentCPU = t, cpu
	return t
}

// add takes a lost record: what is lost lies between the record that the CPU delivered before and this one. from is 0 if that is
// not known.
func (l *lostRecords) add(r *wire.Lost) (from uint64) {
	l.total += r.N
	if !l.thread {
		from = *l.last(r.CPU)
	}
	l.seen(r.CPU, r.Time)
	if len(l.spans) >= MaxEntries {
		l.more += r.N
		return from
	}
	l.spans = append(l.spans, lostSpan{cpu: r.CPU, from: from, to: r.Time, n: r.N})
	return from
}
