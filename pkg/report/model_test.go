package report

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"xw/pkg/wire"
)

// newModel returns a model of a session with one watch of 8 bytes at 0x1000.
func newModel(t testing.TB, change func(*wire.Session)) *Model {
	t.Helper()
	h := &wire.Header{Version: 1, Stream: wire.Events, Session: wire.Session{
		StartNS: 1, Regs: []string{"rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11",
			"r12", "r13", "r14", "r15"},
		Watches: []wire.Watch{{Name: "v", Access: "w", Len: 8, Slots: []wire.Slot{{Addr: 0x1000, Len: 8}}}},
	}}
	if change != nil {
		change(&h.Session)
	}
	m, err := New(h, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// finish ends the session with the given counts of watch 0.
func finish(m *Model, c wire.Counts) *Report {
	m.Add(&c)
	m.Add(&wire.End{Info: wire.EndInfo{StopReason: "duration", EndNS: 1 << 40}})
	m.Finish(nil)
	return m.Report()
}

func hit(time uint64, tid uint32, ip, value uint64) *wire.Sample {
	return &wire.Sample{Time: time, TID: tid, Generation: 1, Addr: 0x1000, IP: ip, Value: wire.Some(value)}
}

// registers returns the registers of a sample, all but those given 0.
func registers(rax, rcx, rsi, rdi uint64) []byte {
	var b []byte
	for _, v := range [16]uint64{0: rax, 2: rcx, 4: rsi, 5: rdi} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

func TestHeaderOfAnotherStream(t *testing.T) {
	_, err := New(&wire.Header{Version: 1, Stream: wire.Raw}, Options{})
	if other := new(StreamError); !errors.As(err, &other) || other.Stream != wire.Raw {
		t.Errorf("error %v", err)
	}
}

// TestThreadsAreTIDAndBirth gives one id to a thousand threads, each with a name of its own.
func TestThreadsAreTIDAndBirth(t *testing.T) {
	m := newModel(t, nil)
	const n = 1000
	for i := uint64(1); i <= n; i++ {
		m.Add(&wire.Fork{Time: 10 * i, PID: 7, PPID: 7, TID: 9, PTID: 7})
		m.Add(&wire.Comm{Time: 10*i + 1, PID: 7, TID: 9, Comm: fmt.Sprint("t", i)})
		m.Add(hit(10*i+2, 9, 0x400, i))
		m.Add(&wire.Exit{Time: 10*i + 3, PID: 7, TID: 9})
		m.Add(hit(10*i+4, 9, 0x400, i)) // late: it still belongs to the one that ended
	}
	w := finish(m, wire.Counts{Counted: 2 * n}).Watches[0]
	if len(w.Threads) != n || w.Sites[0].Threads != n {
		t.Errorf("%d threads, %d at the site, want %d", len(w.Threads), w.Sites[0].Threads, n)
	}
	for _, th := range w.Threads {
		if th.Hits != 2 || !th.BirthNS.OK || th.Comm != Text(fmt.Sprint("t", th.BirthNS.V/10)) {
			t.Fatalf("thread %+v", th)
		}
	}
	if len(w.Sites[0].Comms) != maxComms+1 {
		t.Errorf("%d thread names at the site, want %d and one for the rest", len(w.Sites[0].Comms), maxComms)
	}
}

func TestManyThreadsAreFolded(t *testing.T) {
	m := newModel(t, nil)
	const n = MaxEntries + 500
	for i := uint64(1); i <= n; i++ {
		m.Add(hit(i, uint32(i), 0x400, 1))
		m.Add(hit(i, uint32(i), 0x400, 1))
	}
	w := finish(m, wire.Counts{Counted: 2 * n}).Watches[0]
	last := w.Threads[len(w.Threads)-1]
	if len(w.Threads) != MaxEntries+1 || last.TID.OK || last.Folded.V != 500 || last.Hits != 1000 {
		t.Errorf("%d entries, the last %+v", len(w.Threads), last)
	}
	if w.threads != n || w.Sites[0].Threads != n {
		t.Errorf("%d threads, %d at the site, want %d", w.threads, w.Sites[0].Threads, n)
	}
}

func TestDistinctValues(t *testing.T) {
	for _, test := range []struct {
		values uint64
		exact  bool
		want   uint64
	}{{1, true, 1}, {maxValues, true, maxValues}, {maxValues + 1, false, maxValues}} {
		m := newModel(t, nil)
		for i := range 3 * test.values {
			m.Add(hit(i+1, 7, 0x400, i%test.values))
		}
		w := finish(m, wire.Counts{Counted: 3 * test.values}).Watches[0]
		if w.DistinctValues != num(test.want) || w.DistinctValuesExact != test.exact {
			t.Errorf("%d values: %v distinct, exact %v", test.values, w.DistinctValues, w.DistinctValuesExact)
		}
		if test.exact && w.Values[0].Hits != 3 || !test.exact && len(w.Values) != 0 {
			t.Errorf("%d values: list %v", test.values, w.Values[:min(3, len(w.Values))])
		}
	}
}

// TestValuesOfSlots gives two slots the same value: as values of the watch they are two.
func TestValuesOfSlots(t *testing.T) {
	m := newModel(t, func(s *wire.Session) {
		s.Watches[0].Slots = []wire.Slot{{Addr: 0x1000, Len: 8}, {Addr: 0x1008, Len: 8}}
	})
	for i := range uint64(4) {
		s := hit(i+1, 7, 0x400, 5)
		s.Addr += 8 * (i % 2)
		m.Add(s)
	}
	w := finish(m, wire.Counts{Counted: 4}).Watches[0]
	if w.DistinctValues != num(2) || w.Silent != num(2) {
		t.Errorf("%v distinct, %v silent, want 2 and 2", w.DistinctValues, w.Silent)
	}
}

// TestSilentAmongOthers: a hit that reads the same as one on another CPU just before it may have made that value, which the
// other one's reading came late enough to see.
func TestSilentAmongOthers(t *testing.T) {
	const late = overtaking + 100
	type read struct {
		time  uint64
		cpu   uint32
		value uint64
	}
	for _, test := range []struct {
		name   string
		hits   []read
		silent Num
		old    string // of the last
	}{
		{"both have stored before one reads", []read{{10, 0, 1}, {20, 1, 3}, {30, 0, 3}}, num(0), "?"},
		{"on the same CPU", []read{{10, 0, 1}, {20, 1, 3}, {30, 1, 3}}, num(1), "0x3"},
		{"read there before", []read{{10, 0, 3}, {20, 1, 3}, {30, 1, 3}, {40, 0, 3}}, num(2), "0x3"},
		{"long after", []read{{10, 0, 3}, {late, 1, 3}, {late + 10, 70, 3}}, num(2), "0x3"},
		{"another value", []read{{10, 0, 3}, {20, 1, 4}}, num(0), "0x3"},
		{"again after another value", []read{{10, 0, 3}, {20, 0, 4}, {30, 1, 3}, {40, 0, 3}}, num(0), "?"},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := newModel(t, nil)
			for _, r := range test.hits {
				s := hit(r.time, 7+r.cpu, 0x400, r.value)
				s.CPU = r.cpu
				m.Add(s)
			}
			w := finish(m, wire.Counts{Counted: uint64(len(test.hits))}).Watches[0]
			if old := w.Sites[0].LastOldValue; w.Silent != test.silent || old.String() != test.old {
				t.Errorf("%v silent, the last over %v; want %v, %v", w.Silent, old, test.silent, test.old)
			}
		})
	}
}

// TestOldValueIsNotGuessed: after lost records nobody knows what stood there before.
func TestOldValueIsNotGuessed(t *testing.T) {
	m := newModel(t, nil)
	m.Add(hit(1, 7, 0x400, 1))
	m.Add(hit(2, 7, 0x400, 1))
	m.Add(&wire.Lost{Time: 3, N: 1})
	m.Add(hit(4, 8, 0x401, 1))
	w := finish(m, wire.Counts{Counted: 4, Lost: 1}).Watches[0]
	if w.Sites[1].LastOldValue.OK || w.Sites[1].Silent.OK || w.Silent != num(1) || w.HandoffsThread != 0 {
		t.Errorf("after a loss: old %v, silent %v of %v, hand-offs %d", w.Sites[1].LastOldValue, w.Sites[1].Silent,
			w.Silent, w.HandoffsThread)
	}
	noValue := hit(5, 7, 0x400, 0)
	noValue.Value = wire.Opt{}
	m = newModel(t, nil)
	m.Add(hit(1, 7, 0x400, 1))
	m.Add(noValue)
	w = finish(m, wire.Counts{Counted: 2}).Watches[0]
	if w.LastValue.OK || w.Sites[0].LastValue.OK {
		t.Errorf("last value %v of a hit without one", w.LastValue)
	}
}

// TestComplete: what makes a report incomplete, one thing at a time.
func TestComplete(t *testing.T) {
	for name, test := range map[string]struct {
		counts wire.Counts
		also   wire.Record
		gap    Text
		count  Num
	}{
		"complete":        {counts: wire.Counts{Counted: 2}},
		"after the stop":  {counts: wire.Counts{Counted: 5, AfterStop: 3}},
		"foreign":         {counts: wire.Counts{Counted: 2, Foreign: 9}},
		"lost":            {counts: wire.Counts{Counted: 5, Lost: 3}, gap: gapLost, count: num(3)},
		"too few":         {counts: wire.Counts{Counted: 6}, gap: gapCountMismatch, count: num(4)},
		"too many":        {counts: wire.Counts{Counted: 1}, gap: gapCountMismatch, count: num(1)},
		"missed":          {counts: wire.Counts{Counted: 3, Missed: 1}, gap: gapCountMismatch, count: num(1)},
		"side band lost":  {counts: wire.Counts{Counted: 2}, also: &wire.Lost{Time: 5, N: 2}, gap: gapLost, count: num(2)},
		"malformed":       {counts: wire.Counts{Counted: 2}, also: &wire.Malformed{}, gap: gapMalformed, count: num(1)},
		"paused":          {counts: wire.Counts{Counted: 2}, also: &wire.Pause{To: 3}, gap: gapPaused},
		"throttled":       {counts: wire.Counts{Counted: 2}, also: &wire.Throttle{On: true}, gap: gapThrottled},
		"unwatched task":  {counts: wire.Counts{Counted: 2}, also: &wire.Gap{Reason: "unwatched_task"}, gap: "unwatched_task"},
		"refused command": {counts: wire.Counts{Counted: 2}, also: &wire.ControlRecord{Reason: "stale"}, gap: gapControl, count: num(1)},
		"late":            {counts: wire.Counts{Counted: 2}, also: &wire.Late{N: 5}},
	} {
		m := newModel(t, nil)
		m.Add(hit(1, 7, 0x400, 1))
		m.Add(hit(2, 7, 0x400, 1))
		if test.also != nil {
			m.Add(test.also)
		}
		r := finish(m, test.counts)
		switch {
		case test.gap == "" && (!r.Complete || len(r.Gaps) != 0):
			t.Errorf("%s: gaps %+v", name, r.Gaps)
		case test.gap != "" && (r.Complete || len(r.Gaps) == 0 || r.Gaps[0].Kind != test.gap || r.Gaps[0].Count != test.count):
			t.Errorf("%s: complete %v, gaps %+v", name, r.Complete, r.Gaps)
		}
		for _, g := range r.Gaps[min(1, len(r.Gaps)):] {
			if g.Kind != test.gap || g.Count.OK {
				t.Errorf("%s: one gap too many: %+v", name, g)
			}
		}
	}
}

// TestLostIsCountedOnce: lost records tell when, counts how many.
func TestLostIsCountedOnce(t *testing.T) {
	m := newModel(t, nil)
	m.Add(hit(10, 7, 0x400, 1))
	m.Add(&wire.Lost{Time: 20, N: 3})
	m.Add(&wire.Lost{Time: 30, N: 4})
	r := finish(m, wire.Counts{Counted: 10, Lost: 9}) // two more at the very end, of which no record could tell
	var sum uint64
	for _, g := range r.Gaps {
		if g.Kind != gapLost {
			t.Errorf("gap %+v", g)
		}
		sum += g.Count.V
	}
	if sum != 9 || len(r.Gaps) != 3 || r.Gaps[0].FromNS != num(10) || r.Gaps[0].ToNS != num(30) {
		t.Errorf("%d lost in all, gaps %+v", sum, r.Gaps)
	}
}

func TestWithoutCountsOrEnd(t *testing.T) {
	m := newModel(t, nil)
	m.Add(hit(1, 7, 0x400, 1))
	if r := m.Report(); r.Complete || !r.Running {
		t.Error("complete before the end")
	}
	m.Finish(wire.ErrTruncated)
	if r := m.Report(); r.Complete || r.Gaps[0].Kind != gapTruncated || r.Watches[0].Counted.OK {
		t.Errorf("truncated: %+v", r.Gaps)
	}
	m = newModel(t, nil)
	m.Add(&wire.End{})
	m.Finish(nil)
	if r := m.Report(); r.Complete || r.Gaps[0].Kind != gapCountMismatch {
		t.Errorf("no counts: %+v", r.Gaps)
	}
}

func TestManyGapsAreFolded(t *testing.T) {
	m := newModel(t, nil)
	for i := range uint64(MaxEntries + 10) {
		m.Add(&wire.Malformed{Offset: i})
	}
	m.Add(&wire.Pause{})
	r := finish(m, wire.Counts{Counted: 5})
	last := r.Gaps[len(r.Gaps)-1]
	if len(r.Gaps) != MaxEntries+1 || last.Count != num(12) || last.Kind != gapMalformed {
		t.Errorf("%d gaps, the last %+v", len(r.Gaps), last)
	}
	if r.Gaps[0].Kind != gapCountMismatch {
		t.Errorf("the mismatch was folded away: %+v", r.Gaps[0])
	}
}

func isChange(g Gap) bool { return g.Kind == gapChangedWithoutHit }

func onCPU(cpu uint32, s *wire.Sample) *wire.Sample {
	s.CPU = cpu
	return s
}

// TestChangedWithoutHit: the bytes before the first hit and after the last one.
func TestChangedWithoutHit(t *testing.T) {
	check := func(time uint64, hits, value wire.Opt) wire.Record {
		return &wire.Check{Time: time, Addr: 0x1000, Hits: hits, Value: value}
	}
	n := wire.Some
	for _, test := range []struct {
		name    string
		records []wire.Record
		want    string // yes, no or ""
		from    uint64
	}{
		{"nothing happened", []wire.Record{check(1, n(0), n(5)), check(9, n(0), n(5))}, "no", 0},
		{"written without a hit", []wire.Record{check(1, n(0), n(5)), check(9, n(0), n(6))}, "yes", 1},
		{"the last hit's value", []wire.Record{check(1, n(0), n(5)), hit(4, 7, 1, 6), check(9, n(1), n(6))}, "no", 0},
		{"another value", []wire.Record{check(1, n(0), n(5)), hit(4, 7, 1, 6), check(9, n(1), n(7))}, "yes", 4},
		{"a hit is missing", []wire.Record{check(1, n(0), n(5)), hit(4, 7, 1, 6), check(9, n(2), n(7))}, "", 0},
		{"hits came all the time", []wire.Record{check(1, n(0), n(5)), hit(4, 7, 1, 6), check(9, wire.Opt{}, wire.Opt{})}, "", 0},
		{"the hit had no value", []wire.Record{check(1, n(0), n(5)), &wire.Sample{Time: 4, Addr: 0x1000}, check(9, n(1), n(7))}, "", 0},
		{"hits went missing", []wire.Record{check(1, n(0), n(5)), &wire.Late{N: 1}, &wire.Malformed{}, check(9, n(0), n(7))}, "", 0},
		{"it was paused", []wire.Record{check(1, n(0), n(5)), &wire.Pause{From: 2, To: 3}, check(9, n(0), n(7))}, "", 0},
		{"one hit overtook another", []wire.Record{check(1, n(0), n(5)), onCPU(1, hit(3, 8, 1, 7)), hit(4, 7, 1, 6), check(9, n(2), n(7))}, "", 0},
		{"one hit was before the other", []wire.Record{check(1, n(0), n(5)), hit(3, 8, 1, 7), hit(4, 7, 1, 6), check(9, n(2), n(7))}, "yes", 4},
		{"the target ended", []wire.Record{check(1, n(0), n(5)), hit(4, 7, 1, 6)}, "", 0},
	} {
		m := newModel(t, nil)
		for _, rec := range test.records {
			m.Add(rec)
		}
		r := finish(m, wire.Counts{Counted: m.watches[0].hits})
		got := ""
		if c := r.Watches[0].ChangedWithoutHit; c != nil {
			got = map[bool]string{true: "yes", false: "no"}[*c]
		}
		if alarm := slices.ContainsFunc(r.Gaps, isChange); got != test.want || alarm != (test.want == "yes") {
			t.Errorf("%s: %q, want %q; gaps %+v", test.name, got, test.want, r.Gaps)
		}
		if test.want == "yes" && (r.Gaps[0].Kind != "changed_without_hit" || r.Gaps[0].FromNS != num(test.from) || r.Gaps[0].ToNS != num(9)) {
			t.Errorf("%s: gap %+v", test.name, r.Gaps[0])
		}
	}
	m := newModel(t, func(s *wire.Session) { s.Kernel = "off" })
	m.Add(check(1, n(0), n(5)))
	m.Add(check(2, n(0), n(6)))
	if detail := finish(m, wire.Counts{}).Gaps[0].Detail; !strings.Contains(string(detail), "6 stands there, and what was seen last is 0x5: a system call of the target, another process") {
		t.Errorf("detail %q", detail)
	}
	m = newModel(t, nil)
	m.Add(check(1, n(0), n(5)))
	m.Add(hit(2, 7, 1, 6))
	if s := finish(m, wire.Counts{Counted: 1}).Watches[0].Sites[0]; s.LastOldValue != hex(5) {
		t.Errorf("before the first hit stood %v, and it was 5", s.LastOldValue)
	}
}

// TestOp: a watch that asks for reads leaves out the sites that only write.
func TestOp(t *testing.T) {
	for _, test := range []struct {
		access, option string
		filtered       uint64
	}{{"r", "", 2}, {"rw", "", 0}, {"rw", "r", 2}, {"rw", "w", 1}, {"r", "rw", 0}, {"r", "w", 1}} {
		m := newModel(t, func(s *wire.Session) { s.Watches[0].Access = test.access })
		m.opts.Op = test.option
		const reads, writes, both, unknown = 0x403, 0x503, 0x603, 0x703
		m.Add(&wire.Code{IP: reads, Start: reads - 3, Bin: []byte{0x48, 0x8b, 0x07, 0x90}})   // mov rax,[rdi]
		m.Add(&wire.Code{IP: writes, Start: writes - 3, Bin: []byte{0x48, 0x89, 0x07, 0x90}}) // mov [rdi],rax
		m.Add(&wire.Code{IP: both, Start: both - 3, Bin: []byte{0x48, 0x01, 0x07, 0x90}})     // add [rdi],rax
		for i, ip := range []uint64{reads, writes, writes, both, unknown} {
			s := hit(uint64(i), 7, ip, 1)
			s.Regs = registers(1, 0, 0, 0x1000)
			m.Add(s)
		}
		w := finish(m, wire.Counts{Counted: 5}).Watches[0]
		if w.Filtered != test.filtered || w.Hits != 5 || len(w.Sites) != 4 {
			t.Errorf("watch %s, --op %q: %d of %d hits filtered, %d sites", test.access, test.option, w.Filtered, w.Hits, len(w.Sites))
		}
	}
}
