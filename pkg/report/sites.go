package report

import (
	"cmp"
	"encoding/binary"
	"slices"

	"xw/pkg/insn"
)

// sites fills in the sites and what is summed over them.
func (m *Model) sites(w *watch, out *Watch) {
	var accesses, silent uint64
	accessesKnown, silentKnown := true, false
	ends := map[*site][]*site{} // sites of last iterations, by that of the others
	for _, st := range w.sites {
		s := m.sitePart(w, st, out.op)
		if s.filtered {
			out.Filtered += s.Hits
		}
		accesses += s.Accesses.V
		accessesKnown = accessesKnown && s.Accesses.OK
		if s.Silent.OK {
			silent, silentKnown = silent+s.Silent.V, true
		}
		if root := m.endOf(w, st); root != nil {
			s.LastOf = hex(root.key.ip)
			ends[root] = append(ends[root], st)
		}
		out.Sites = append(out.Sites, s)
	}
	if accessesKnown {
		out.Accesses = num(accesses)
	}
	if silentKnown {
		out.Silent = num(silent)
	}
	slices.SortFunc(out.Sites, compareSites)
	m.lines(w, out, ends)
}

// lines fills in what is shown to people: one site for each instruction.
func (m *Model) lines(w *watch, out *Watch, ends map[*site][]*site) {
	out.lines = make([]*Site, 0, len(out.Sites))
	for i := range out.Sites {
		if len(ends) == 0 || !out.Sites[i].LastOf.OK {
			out.lines = append(out.lines, &out.Sites[i])
		}
	}
	if len(ends) == 0 {
		return
	}
	for i, s := range out.lines {
		root := w.sites[s.key]
		if list := ends[root]; list != nil {
			slices.SortFunc(list, func(a, b *site) int { return cmp.Compare(a.key.ip, b.key.ip) })
			both := m.sitePart(w, combine(root, list), out.op)
			out.lines[i] = &both
		}
	}
	slices.SortFunc(out.lines, func(a, b *Site) int { return compareSites(*a, *b) })
}

// compareSites orders sites: most hits first.
func compareSites(a, b Site) int {
	return cmp.Or(cmp.Compare(b.Hits, a.Hits), cmp.Compare(a.Origin, b.Origin), cmp.Compare(a.IP.V, b.IP.V),
		cmp.Compare(userIP(a), userIP(b)), cmp.Compare(a.SyscallNR.V, b.SyscallNR.V),
		cmp.Compare(a.key.text.home, b.key.text.home), cmp.Compare(a.key.text.version, b.key.text.version))
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

func (m *Model) sitePart(w *watch, st *site, asked string) Site {
	m.name(w, st)
	out := Site{
		IP: hex(st.key.ip), Insn: Text(st.insn.Text), Op: m.op(w, st),
		Place: st.place, Origin: uint64(st.key.origin), Hits: st.hits, Threads: st.threads.n, FirstNS: num(st.first),
		LastNS: num(st.last), LastValue: Hex(st.value), Regs: m.regsOf(st), LastOldValue: Hex(st.old),
		InsnReason: Text(st.insn.Reason), Comms: st.comms.counts(), HandoffsThread: st.handoffs.thread,
		HandoffsCPU: st.handoffs.cpu, User: st.user,
		LastLoaded: Hex(st.insn.loaded), LastStored: Hex(st.insn.stored), Stacks: m.stackList(st), SyscallNR: Num(st.key.syscall),
		key: st.key, before: Hex(st.old),
	}
	out.filtered = !matches(asked, string(out.Op))
	if st.insn.Status == insn.Exact {
		out.InsnAddr = hex(st.insn.Addr)
	}
	if st.key.syscall.OK && m.session.Target.Bits != 32 {
		out.Syscall = Text(syscallName(st.key.syscall.V))
	}
	if w.Access == "x" {
		out.Accesses = num(st.hits)
		return out
	}
	m.accesses(w, st, &out)
	return out
}

// op is what is known of the operation of a site. Of a copy by the kernel, of which no instruction is known, the
// registers tell which end of it is watched.
func (m *Model) op(w *watch, st *site) Text {
	op := Text(cmp.Or(st.insn.Op, insn.Unknown))
	switch {
	case w.Access == "x":
		return insn.Execute
	case op != insn.Unknown || st.key.origin == 0 || st.folded.rep == 0 || st.regs == nil:
		return op
	}
	behind := func(i int) bool { d := reg(st.regs, i) - st.addr; return d > 0 && d <= st.len+8 }
	target, source := behind(m.regs.di), behind(m.regs.si)
	switch {
	case target && !source:
		return insn.Write
	case source && !target:
		return insn.Read
	}
	return op
}

// accesses fills in what is known of accesses as a whole.
func (m *Model) accesses(w *watch, st *site, out *Site) {
	kernel, whole := st.key.origin != 0, true
	n := st.folded.accesses(st.hits, kernel, func() (yes, known bool) {
		yes, known = m.repeats(w, st)
		whole = yes
		return yes, known
	})
	whole = whole && n.OK
	out.Accesses = Num(n)
	if lost := w.counts.Lost; lost > 0 && n.V != st.hits { // what belongs together may be torn apart
		out.Accesses = Num{}
	}
	silent := st.silent.same
	if whole {
		silent, out.before = st.whole.silent.same, Hex(st.whole.old)
		out.least, out.most = st.whole.bytes(out.Accesses)
		if out.least == out.most {
			out.AccessBytes = present(out.least)
		}
	}
	if st.changes() { // where the values say otherwise another writer was faster
		silent = 0
		if out.before == Hex(st.value) {
			out.before, out.LastOldValue = Hex{}, Hex{}
		}
	}
	if writes := out.Op == insn.Write || out.Op == insn.ReadWrite || w.Access == "w"; writes && st.silent.compared > 0 {
		out.Silent = num(silent)
	}
}

// bytes is how many watched bytes the accesses of several iterations touched, at least and at most; 0 if that is not known
// of all n of them.
func (a *wholeAccesses) bytes(n Num) (least, most uint64) {
	if a.spans == nil || !n.OK {
		return 0, 0
	}
	sum := uint64(0)
	for i, count := range a.spans {
		if count == 0 {
			continue
		}
		if sum == 0 {
			least = uint64(i)
		}
		most = uint64(i)
		sum += count
	}
	if sum != n.V {
		return 0, 0
	}
	return least, most
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

// endOf returns the site of the instruction whose last iterations were reported at st; nil if st is no such place.
func (m *Model) endOf(w *watch, st *site) *site {
	root := w.sites[st.folded.from]
	if st.folded.rep == 0 || st.folded.rep != st.folded.ends || root == nil {
		return nil
	}
	if yes, known := m.repeats(w, st); st.key.origin == 0 && !(yes && known) {
		return nil
	}
	return root
}

// combine adds the sites of last iterations to that of the others.
func combine(root *site, ends []*site) *site {
	out := *root
	out.threads, out.comms = root.threads.clone(), root.comms.clone()
	out.stacks = nil
	out.addStacks(root)
	for _, e := range ends {
		out.hits += e.hits
		out.first = min(out.first, e.first)
		out.threads.union(&e.threads)
		out.comms.addAll(&e.comms)
		out.silent.add(e.silent)
		out.whole.silent.add(e.whole.silent)
		out.handoffs.thread += e.handoffs.thread
		out.handoffs.cpu += e.handoffs.cpu
		out.folded.addAll(&e.folded)
		out.other += e.other
		out.addStacks(e)
		if e.last >= out.last {
			out.last, out.value, out.old, out.whole.old = e.last, e.value, e.old, e.whole.old
			out.addr, out.len, out.regs = e.addr, e.len, e.regs
			out.insn.loaded, out.insn.stored = e.insn.loaded, e.insn.stored
		}
	}
	out.folded.from = root.key
	out.named = out.hits
	return &out
}

func (s *silent) add(other silent) {
	s.same += other.same
	s.compared += other.compared
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
