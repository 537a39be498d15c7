package report

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"xw/pkg/insn"
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
		ThreadsAtAttach: present(s.Threads), Slots: present(s.Slots), RealtimeNS: present(s.RealtimeNS)}
	if e := m.end; e != nil {
		out.ElapsedNS, out.StopReason, out.ThreadsSeen = num(e.ElapsedNS), Text(e.StopReason), present(e.ThreadsSeen)
		out.Error, out.Child = Text(e.Error), Text(e.Child)
	}
	return out
}

func (m *Model) allNotes() []Text {
	notes := append(m.notes.list(), m.remarks.list()...)
	if m.late > 0 {
		notes = append(notes, Text(fmt.Sprintf("%d records came late: they stand out of order in the stream", m.late)))
	}
	var irregular uint64
	for _, w := range m.watches {
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
	if w.hasCounts {
		c := &w.counts
		out.Counted, out.Lost, out.AfterStop = num(c.Counted), num(c.Lost), num(c.AfterStop)
		out.Emitted, out.Foreign, out.Missed = num(c.Emitted), num(c.Foreign), num(c.Missed)
	}
	out.op = m.askedFor(w)
	m.sites(w, &out)
	return out
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

// sites fills in the sites and what is summed over them.
func (m *Model) sites(w *watch, out *Watch) {
	var accesses, silent uint64
	accessesKnown, silentKnown := true, false
	for _, st := range w.sites {
		s := m.sitePart(w, st)
		s.filtered = !matches(out.op, string(s.Op))
		if s.filtered {
			out.Filtered += s.Hits
		}
		accesses += s.Accesses.V
		accessesKnown = accessesKnown && s.Accesses.OK
		if s.Silent.OK {
			silent, silentKnown = silent+s.Silent.V, true
		}
		out.Sites = append(out.Sites, s)
	}
	if accessesKnown {
		out.Accesses = num(accesses)
	}
	if silentKnown {
		out.Silent = num(silent)
	}
	slices.SortFunc(out.Sites, func(a, b Site) int {
		return cmp.Or(cmp.Compare(b.Hits, a.Hits), cmp.Compare(a.Origin, b.Origin), cmp.Compare(a.IP.V, b.IP.V),
			cmp.Compare(userIP(a), userIP(b)), cmp.Compare(a.SyscallNR.V, b.SyscallNR.V))
	})
}

func userIP(s Site) uint64 {
	if s.User == nil {
		return 0
	}
	return s.User.IP.V
}

// matches tells whether a site is among those asked for; one whose operation is unknown may be.
func matches(asked, op string) bool {
	switch {
	case asked == "", op == insn.Unknown, op == insn.ReadWrite:
		return true
	case asked == "r":
		return op == insn.Read
	}
	return op == insn.Write
}

func (m *Model) sitePart(w *watch, st *site) Site {
	m.name(w, st)
	kernel := st.key.origin != 0
	out := Site{
		IP: hex(st.key.ip), Insn: Text(st.insn.Text), Op: Text(cmp.Or(st.insn.Op, insn.Unknown)),
		Place: st.place, Origin: uint64(st.key.origin), Hits: st.hits, Threads: st.threads.n, FirstNS: num(st.first),
		LastNS: num(st.last), LastValue: Hex(st.value), Regs: m.regsOf(st), LastOldValue: Hex(st.old),
		InsnReason: Text(st.insn.Reason), Comms: st.comms.counts(), HandoffsThread: st.handoffs.thread,
		HandoffsCPU: st.handoffs.cpu, User: st.user,
		LastLoaded: Hex(st.insn.loaded), LastStored: Hex(st.insn.stored), Stacks: m.stackList(st), SyscallNR: Num(st.key.syscall),
	}
	if st.insn.Status == insn.Exact {
		out.InsnAddr = hex(st.insn.Addr)
	}
	if st.key.syscall.OK && m.session.Target.Bits != 32 {
		out.Syscall = Text(syscallName(st.key.syscall.V))
	}
	if w.Access == "x" {
		out.Op, out.Accesses = insn.Execute, num(st.hits)
		return out
	}
	if writes := out.Op == insn.Write || out.Op == insn.ReadWrite || w.Access == "w"; writes && st.compared > 0 {
		out.Silent = num(st.same)
	}
	out.Accesses = Num(st.folded.accesses(st.hits, kernel, func() (yes, known bool) { return m.repeats(w, st) }))
	if lost := w.counts.Lost; lost > 0 && out.Accesses.V != st.hits { // what belongs together may be torn apart
		out.Accesses = Num{}
	}
	return out
}

// repeats tells whether the instruction of a site is a rep string one. That of its last iteration, which is reported
// behind it, is the one of the iterations before.
func (m *Model) repeats(w *watch, st *site) (yes, known bool) {
	if from := w.sites[st.folded.from]; from != nil {
		st = from
		m.name(w, st)
	}
	return st.insn.Rep, st.insn.Status == insn.Exact
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

// regsOf returns the registers of the last hit, nil if it had none.
func (m *Model) regsOf(st *site) *Regs {
	if st.regs == nil {
		return nil
	}
	r := &Regs{Names: m.regs.names}
	for i := range m.regs.names {
		r.Values = append(r.Values, binary.LittleEndian.Uint64(st.regs[8*i:]))
	}
	return r
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
			x.FromNS = num(e.start)
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
