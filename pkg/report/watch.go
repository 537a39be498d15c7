package report

import (
	"slices"

	"xw/pkg/wire"
)

// watch collects the hits of one watch.
type watch struct {
	*wire.Watch
	id        uint64
	hits      uint64
	first     wire.Opt
	last      uint64
	counts    wire.Counts // of all streams
	past      wire.Counts // of those before the present one
	hasCounts bool        // the present stream told its counts
	uncounted bool        // one before did not

	sites  map[siteKey]*site
	recent *site
	stacks int // distinct call stacks kept, all sites together

	value     wire.Opt // at the last hit
	values    values
	slots     []slotState // one at least
	changed   bool        // something that made no hit changed the bytes
	unchecked bool        // a stream before does not tell whether
	before    before
	bind      bindings
	parent    *watch  // whose value this one hangs on; nil for none
	child     *watch  // the level below
	pointed   pointed // for the parent of a leaf
	begun     bool    // it is known where the level was armed first
	lead      lead    // of a level that has a child
	early     lead    // of the address where it is going to be armed
	stray     stray
	bits      uint64 // of a pointer
	handoffs  handoffs
	walked    uint64 // hits that the kernel made to take call chains
	irregular uint64 // hits whose registers did not have the announced form
	epoch     uint64 // how often hits went missing
	paused    uint64 // ns that the watch was off on purpose
}

// siteKey tells sites apart. A kernel hit is told apart by where the process was, too.
type siteKey struct {
	ip      uint64
	text    text // of user code
	userIP  wire.Opt
	syscall wire.Opt
	origin  uint32
}

func (m *Model) keyOf(s *wire.Sample) siteKey {
	key := siteKey{ip: s.IP, origin: s.Origin}
	if s.Origin != 0 {
		key.userIP, key.syscall = s.UserIP, s.Syscall
	} else {
		key.text = m.texts.at(s.IP)
	}
	return key
}

// site collects the hits of one place.
type site struct {
	key      siteKey
	hits     uint64
	first    uint64
	last     uint64
	threads  threadSet
	comms    commCounts
	value    wire.Opt // at the last hit
	old      wire.Opt // before the last hit
	addr     uint64   // armed at the last hit
	len      uint64   // of the slot that fired at the last hit
	regs     []byte   // at the last hit; nil if it had none
	silent   silent   // by hits
	handoffs handoffs
	folded   folded
	whole    wholeAccesses // by accesses, as far as registers tell them
	stacks   map[uint64]*stack
	other    uint64 // hits whose stack was not kept

	named uint64 // the fields below are right for that many hits
	place Place
	user  *Caller
	insn  instruction
}

// silent counts what left the value as it was.
type silent struct {
	same     uint64
	compared uint64 // those of which the value before and after is known, same included
}

// handoffs counts hits by where the one before came from.
type handoffs struct {
	thread, cpu uint64
}

// before is the hit before the present one.
type before struct {
	ok     bool
	thread uint32 // index
	cpu    uint32
}

func newWatch(w *wire.Watch, id uint64) *watch {
	return &watch{
		Watch: w,
		id:    id,
		sites: map[siteKey]*site{},
		slots: make([]slotState, max(1, len(w.Slots))),
	}
}

// hit takes one hit of the watch by t. It allocates nothing for a site, thread, value and stack that were seen before.
func (w *watch) hit(s *wire.Sample, key siteKey, t *thread, regs *regLayout) {
	w.hits++
	if !w.first.OK || s.Time < w.first.V {
		w.first = wire.Some(s.Time)
	}
	w.last = max(w.last, s.Time)

	st := w.site(s, key)
	st.hits++
	st.first, st.last = min(st.first, s.Time), max(st.last, s.Time)
	st.threads.add(t.index)
	st.comms.add(t.comm)

	slot := w.slotAt(s.Addr)
	st.addr, st.len = s.Addr, w.slotLen(slot)
	w.registers(s, st, slot, t, regs)
	w.takeValue(s, st, slot, &t.on[w.id].last.access)
	w.handoff(s, st, t)
	if s.Callchain != nil {
		w.stack(s, st)
		w.walk(s, slot, regs)
	}
	if w.Chain.OK {
		w.bind.hit(s)
		w.pointed = pointed{time: s.Time, pointer: s.Value, child: s.Child}
		w.leads(s)
	}
}

func (w *watch) site(s *wire.Sample, key siteKey) *site {
	if st := w.recent; st != nil && st.key == key {
		return st
	}
	st := w.sites[key]
	if st == nil {
		st = &site{key: key, first: s.Time, last: s.Time}
		w.sites[key] = st
	}
	w.recent = st
	return st
}

// slotAt returns the index of the slot that is armed at an address. A level of a chain has one, wherever that is.
func (w *watch) slotAt(addr uint64) int {
	for i := range w.Slots {
		if w.Slots[i].Addr == addr {
			return i
		}
	}
	return 0
}

func (w *watch) slotLen(slot int) uint64 {
	if slot < len(w.Slots) {
		return w.Slots[slot].Len
	}
	return w.Len
}

// takeValue takes the value that s carries and compares it with the one before, and with the one before its access.
func (w *watch) takeValue(s *wire.Sample, st *site, slot int, a *access) {
	old := w.slots[slot].hit(s)
	a.take(slot, old, s.Value)
	w.value, st.value, st.old, st.whole.old = s.Value, s.Value, old, a.before(slot)
	if !s.Value.OK {
		return
	}
	w.values.add(uint32(slot), s.Value.V)
	if old.OK {
		st.silent.compared++
		if old.V == s.Value.V {
			st.silent.same++
		}
	}
}

func (w *watch) handoff(s *wire.Sample, st *site, t *thread) {
	if b := &w.before; b.ok {
		if b.thread != t.index {
			w.handoffs.thread++
			st.handoffs.thread++
		}
		if b.cpu != s.CPU {
			w.handoffs.cpu++
			st.handoffs.cpu++
		}
	}
	w.before.ok, w.before.thread, w.before.cpu = true, t.index, s.CPU
}

// registers takes the registers of a hit and tells by them whether it belongs to the access of the hit before.
func (w *watch) registers(s *wire.Sample, st *site, slot int, t *thread, layout *regLayout) {
	if !layout.fits(s.Regs) {
		w.irregular++
	}
	last := &t.on[w.id].last
	if s.Regs == nil || !layout.fits(s.Regs) {
		st.regs = nil
		st.folded.unknown++
		last.ok = false
		last.begin(st, w.epoch)
		return
	}
	st.regs = append(st.regs[:0], s.Regs...)
	r, before, moved := last.follow(s, st.key, uint32(slot), layout)
	st.folded.add(r, before, st.key)
	switch {
	case r == separate, r == unclear, last.epoch != w.epoch:
		last.begin(st, w.epoch)
	case r == iteration:
		last.extend(min(moved, 8), w.Len)
	}
}

// interrupt forgets what the hit before was: hits are missing after it.
func (w *watch) interrupt() {
	w.epoch++
	w.before.ok = false
	for i := range w.slots {
		w.slots[i].value = wire.Opt{}
	}
}

// commCounts are the hits of a site by thread name. Names beyond the first ones share one entry.
type commCounts struct {
	list  []commHits
	other uint64
}

type commHits struct {
	comm string
	hits uint64
}

// maxComms bounds the names kept for a site.
const maxComms = 16

func (c *commCounts) add(comm string) {
	for i := range c.list {
		if c.list[i].comm == comm {
			c.list[i].hits++
			return
		}
	}
	if len(c.list) >= maxComms {
		c.other++
		return
	}
	c.list = append(c.list, commHits{comm, 1})
}

func (c *commCounts) clone() commCounts { return commCounts{slices.Clone(c.list), c.other} }

// addAll adds the counts of another site.
func (c *commCounts) addAll(other *commCounts) {
	for _, e := range other.list {
		i := slices.IndexFunc(c.list, func(h commHits) bool { return h.comm == e.comm })
		switch {
		case i >= 0:
			c.list[i].hits += e.hits
		case len(c.list) < maxComms:
			c.list = append(c.list, e)
		default:
			c.other += e.hits
		}
	}
	c.other += other.other
}
