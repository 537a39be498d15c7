package report

import (
	"cmp"
	"fmt"
	"slices"

	"xw/pkg/wire"
)

// Report returns what is known now. The model can go on afterwards.
func (m *Model) Report() *Report {
	gaps := m.allGaps()
	r := &Report{
		Schema:   Schema,
		Complete: len(gaps) == 0 && m.done,
		Gaps:     gaps,
		Target:   m.target(),
		Session:  m.sessionPart(),
		Watches:  []Watch{},
		Chains:   m.chains(),
		Running:  !m.done,
	}
	for _, w := range m.watches {
		r.Watches = append(r.Watches, m.watchPart(w))
	}
	r.Notes = m.allNotes() // naming the sites adds to them
	return r
}

func (m *Model) target() Target {
	t := m.session.Target
	argv := []Text{}
	for _, a := range t.Argv {
		argv = append(argv, Text(a))
	}
	return Target{PID: present(t.PID), Exe: Text(t.Exe), Comm: Text(t.Comm), Argv: argv, Bits: present(t.Bits),
		NSPid: present(t.NSID)}
}

// present is a number of which 0 means that it is unknown.
func present(v uint64) Num { return Num(wire.Opt{V: v, OK: v != 0}) }

func (m *Model) sessionPart() Session {
	s := &m.session
	out := Session{Scope: Text(s.Scope), Values: Text(s.Values), Kernel: Text(s.Kernel), StartNS: present(s.StartNS),
		ThreadsAtAttach: present(s.Threads), Slots: present(s.Slots), RealtimeNS: present(s.RealtimeNS),
		ScopeReason: Text(s.ScopeReason), ValuesReason: Text(s.ValuesReason), KernelReason: Text(s.KernelReason), Parts: num(m.parts)}
	if e := m.end; e != nil {
		out.ElapsedNS, out.StopReason, out.ThreadsSeen = num(m.elapsed()), Text(e.StopReason), present(max(e.ThreadsSeen, m.threadsSeen))
		out.Error, out.Child = Text(e.Error), Text(e.Child)
	}
	return out
}

// elapsed is the time from the start of the first stream to the end of the last.
func (m *Model) elapsed() uint64 {
	if m.parts == 1 || m.end.EndNS < m.session.StartNS {
		return m.end.ElapsedNS
	}
	return m.end.EndNS - m.session.StartNS
}

func (m *Model) allNotes() []Text {
	notes := append(m.notes.list(), m.remarks.list()...)
	if n := m.rotatedNote(); n != "" {
		notes = append(notes, Text(n))
	}
	if m.late > 0 {
		notes = append(notes, Text(fmt.Sprintf("%d records came late: they stand out of order in the stream", m.late)))
	}
	var irregular uint64
	for _, w := range m.watches {
		if n := w.walkNote(); n != "" {
			notes = append(notes, Text(n))
		}
		irregular += w.irregular
	}
	if irregular > 0 {
		notes = append(notes, Text(fmt.Sprintf(
			"the registers of %s have another form than the header announces and were left out", plural(irregular, "hit"))))
	}
	return notes
}

func (m *Model) watchPart(w *watch) Watch {
	threads, n := m.threads.counts(w.id)
	out := Watch{
		ID: w.id, Name: Text(w.Name), Place: Text(w.Place), Addr: Hex(w.Addr), Len: w.Len, Access: Text(w.Access),
		Role: Text(w.Role), Slots: []Slot{}, Hits: w.hits, FirstNS: Num(w.first), Threads: threads, threads: n,
		Sites: []Site{}, LastValue: Hex(w.value), Values: w.values.frequent(), DistinctValuesExact: !w.values.more,
		HandoffsThread: w.handoffs.thread, HandoffsCPU: w.handoffs.cpu, ChangedWithoutHit: w.changedWithoutHit(), Parent: Num(w.Parent), Offset: w.Offset,
	}
	if w.hits > 0 {
		out.LastNS = num(w.last)
	}
	for _, s := range w.Slots {
		out.Slots = append(out.Slots, Slot{Addr: hex(s.Addr), Len: s.Len})
	}
	if w.values.hits != nil {
		out.DistinctValues = num(uint64(len(w.values.hits)))
	}
	if w.counted() {
		c := w.totals()
		out.Counted, out.Lost, out.AfterStop = num(c.Counted), num(c.Lost), num(c.AfterStop)
		out.Emitted, out.Foreign, out.Missed = num(c.Emitted), num(c.Foreign), num(c.Missed)
	}
	out.PausedNS, out.DutyCycle = num(w.paused), m.dutyCycle(w)
	out.op = m.askedFor(w)
	m.sites(w, &out)
	return out
}

// dutyCycle is the part of the session in which a watch was on.
func (m *Model) dutyCycle(w *watch) Ratio {
	elapsed := m.last - min(m.last, m.session.StartNS)
	if m.end != nil {
		elapsed = m.elapsed()
	}
	if m.session.StartNS == 0 || elapsed == 0 {
		return Ratio{}
	}
	return Ratio{V: 1 - float64(min(w.paused+m.unwatched, elapsed))/float64(elapsed), OK: true}
}

// askedFor is the operation that a reader wants to see: that of the options, else that of the watch.
func (m *Model) askedFor(w *watch) string {
	switch {
	case m.opts.Op == "r", m.opts.Op == "w":
		return m.opts.Op
	case m.opts.Op == "" && w.Access == "r":
		return "r"
	}
	return ""
}

func (c *commCounts) counts() []CommCount {
	list := []CommCount{}
	for _, e := range c.list {
		list = append(list, CommCount{Comm: Text(e.comm), Hits: e.hits})
	}
	slices.SortStableFunc(list, func(a, b CommCount) int { return cmp.Compare(b.Hits, a.Hits) })
	if c.other > 0 {
		list = append(list, CommCount{Hits: c.other})
	}
	return list
}

// chains lists the chains of the session.
func (m *Model) chains() []Chain {
	out := []Chain{}
	index := map[uint64]int{}
	for _, w := range m.watches {
		if !w.Chain.OK {
			continue
		}
		i, ok := index[w.Chain.V]
		if !ok {
			i = len(out)
			index[w.Chain.V] = i
			out = append(out, Chain{Levels: []uint64{}, Bindings: []Binding{}})
		}
		c := &out[i]
		c.Levels = append(c.Levels, w.id)
		c.Bindings = append(c.Bindings, w.bind.counts(w.id)...)
		if w.Role == "leaf" {
			c.Name, c.Rebinds = Text(w.Name), w.bind.rebinds
			c.BlindNS, c.LongestBlindNS = m.blindTime(w)
		}
	}
	for i := range out {
		out[i].Bindings = foldBindings(out[i].Bindings)
	}
	return out
}

func (b *bindings) counts(id uint64) []Binding {
	out := make([]Binding, 0, len(b.list))
	for _, e := range b.list {
		x := Binding{Watch: id, Generation: num(e.generation), Addr: Hex(e.addr), Hits: e.hits, ToNS: Num(e.to)}
		if e.known {
			x.FromNS, x.Value = num(e.start), Hex(e.value)
		}
		if e.errno != 0 {
			x.Errno = num(uint64(e.errno))
		}
		out = append(out, x)
	}
	if b.folded.count > 0 || b.folded.hits > 0 {
		out = append(out, Binding{Watch: id, Hits: b.folded.hits, FromNS: present(b.folded.from), Folded: num(b.folded.count)})
	}
	return out
}

// foldBindings cuts the bindings of a chain to MaxEntries and one more for the rest.
func foldBindings(list []Binding) []Binding {
	if len(list) <= MaxEntries {
		return list
	}
	rest := Binding{Watch: list[MaxEntries].Watch, Folded: num(0)}
	for _, b := range list[MaxEntries:] {
		rest.Hits += b.Hits
		if b.Folded.OK {
			rest.Folded.V += b.Folded.V
		} else {
			rest.Folded.V++
		}
	}
	return append(list[:MaxEntries:MaxEntries], rest)
}
