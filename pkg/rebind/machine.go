// Package rebind follows chains of pointers. When the slot of a header or pointer level is written, what is below it
// has moved: the package decides which commands make xw-open arm the levels at their new places, one level at a time,
// each from what the one above was found to hold after it was armed. It reads no memory of any process.
package rebind

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"

	"xw/pkg/wire"
)

// patience is how long an answer may take, in ns of stream time: the time that the records show to have passed. Moving
// a level in 1000 threads takes 30 ms.
const patience = 2_000_000_000

// Reasons of gap records, as they stand in reports.
const (
	blind   = "blind"
	control = "control"
)

var errNoAnswer = errors.New("no answer from xw-open")

// Memory stands in for the target's memory in tests.
type Memory interface {
	// Value returns what the slot at addr held at a time in ns, false if that is not known.
	Value(addr, time uint64) (uint64, bool)
}

// Machine is the state of all chains of a session. It does no input or output of its own but to call send.
type Machine struct {
	chains []*chain
	places []place // by watch
	send   func(wire.Record) error
	memory Memory // nil without a fixture
	say    func(format string, args ...any)
	enc    *encoder

	now    uint64 // ns, the latest time that a record has shown
	broken error  // why no commands can be sent any more
	lost   error  // set when a chain was not followed for lack of control
	out    []wire.Record
}

// place is where a watch stands in a chain; chain is nil for a plain watch.
type place struct {
	chain *chain
	level int
}

// NewMachine returns a Machine for a session. Commands go to send, which must not block; once it has failed it is not
// called again. Where memory is not nil, it answers what xw-open would be asked to read. Messages for people go to say.
func NewMachine(s *wire.Session, send func(wire.Record) error, memory Memory,
	say func(format string, args ...any)) (*Machine, error) {
	chains, err := chainsOf(s)
	if err != nil {
		return nil, err
	}
	m := &Machine{chains: chains, places: make([]place, len(s.Watches)), send: send, memory: memory, say: say,
		enc: newEncoder()}
	for _, c := range chains {
		for j := range c.levels {
			m.places[c.levels[j].watch] = place{c, j}
		}
	}
	return m, nil
}

// Lost returns nil while the chains were followed as far as it depends on control, else the first reason why not.
func (m *Machine) Lost() error { return m.lost }

// Take takes the next record of the stream and returns the records that it gives rise to. They are valid until the next
// call and come after r, but before an end record.
func (m *Machine) Take(r wire.Record) []wire.Record {
	m.out = m.out[:0]
	switch r := r.(type) {
	case *wire.Sample:
		m.pass(r.Time)
		m.sample(r)
	case *wire.Bound:
		m.pass(r.Time)
		m.bound(r)
	case *wire.ControlRecord:
		m.pass(r.Time)
		m.refused(r)
	case *wire.Lost:
		m.pass(r.Time)
		m.doubt(wire.Opt{}, r.Time)
	case *wire.Gap:
		m.pass(r.Time)
		m.doubt(r.Watch, endOf(r))
	case *wire.Malformed:
		m.doubt(wire.Opt{}, m.now)
	case *wire.Throttle:
		m.pass(r.Time)
		if !r.On {
			m.doubt(r.Watch, r.Time)
		}
	case *wire.Pause:
		m.pass(r.To)
		m.doubt(wire.Some(uint64(r.Watch)), r.To)
	case *wire.Comm:
		m.pass(r.Time)
	case *wire.Fork:
		m.pass(r.Time)
	case *wire.Exit:
		m.pass(r.Time)
	case *wire.Mmap:
		m.pass(r.Time)
	case *wire.End:
		m.finish(r.Info.EndNS)
	}
	return m.out
}

// Finish returns the records that a stream without an end record ends with.
func (m *Machine) Finish() []wire.Record {
	m.out = m.out[:0]
	m.finish(m.now)
	return m.out
}

// at returns the place of a watch.
func (m *Machine) at(watch uint64) place {
	if watch >= uint64(len(m.places)) {
		return place{}
	}
	return m.places[watch]
}

// sample takes a hit. Hits of an earlier binding, at another address or older than what was read when the present one was
// armed, say nothing about the slot: by address and time as by generation, which xw-decode makes of the two.
func (m *Machine) sample(s *wire.Sample) {
	p := m.at(uint64(s.Watch))
	c, j := p.chain, p.level
	if c == nil || j == len(c.levels)-1 {
		return
	}
	l := &c.levels[j]
	o := observation{value: s.Value, at: s.Time, until: s.Time, cpu: s.CPU}
	o.value.V &= c.pointerMask()
	if c.pending.kind == bind && c.pending.level == j && c.pending.addr.V == s.Addr &&
		(!l.slot.early.seen || s.Time >= l.slot.early.at) {
		l.slot.early = store{true, o}
	}
	if l.addr == wire.Some(s.Addr) {
		c.hit(j, o)
		m.step(c)
	}
}

func (m *Machine) bound(b *wire.Bound) {
	p := m.at(uint64(b.Watch))
	c, j := p.chain, p.level
	if c == nil {
		return
	}
	answer := *b
	if m.memory != nil && !b.Value.OK && b.Addr.OK && j < len(c.levels)-1 {
		answer.Value.V, answer.Value.OK = m.memory.Value(b.Addr.V, b.Time)
	}
	cmd, old := c.bound(j, &answer)
	if cmd.moves() {
		m.out = append(m.out, &wire.Rebind{Time: b.Time, Watch: b.Watch, Generation: b.Generation, Old: old,
			New: cmd.addr, CauseTime: cmd.cause})
	}
	if b.Errno != 0 {
		m.say("bind: %s (watch %d): errno %d", c.levels[j].name, b.Watch, b.Errno)
	}
	if !c.live {
		c.live = c.announced()
	}
	m.step(c)
}

// refused takes the record of a command that xw-open refused: where it is ours, nothing else will answer it.
func (m *Machine) refused(r *wire.ControlRecord) {
	for _, c := range m.chains {
		cmd := c.pending
		if cmd.kind == none {
			continue
		}
		if b, err := m.enc.encode(cmd.record()); err != nil || !bytes.Equal(b, r.Bin) {
			continue
		}
		l := &c.levels[cmd.level]
		m.say("control: %s (watch %d): refused: %s", l.name, cmd.watch, r.Reason)
		c.pending = command{}
		switch cmd.kind {
		case bind:
			c.refuse(cmd, fmt.Sprintf("%s was refused at 0x%x: %s", l.name, cmd.addr.V, r.Reason))
		case unbind:
			l.addr = wire.Opt{} // asking again would not help
		case read:
			c.learn(cmd.level, observation{at: l.slot.doubt.last, until: m.now, reading: true})
		}
		m.step(c)
		return
	}
}

// endOf is the last time that something may have happened in a gap. Most are told of at the end, long after that.
func endOf(g *wire.Gap) uint64 {
	if g.To.OK {
		return min(g.To.V, g.Time)
	}
	return g.Time
}

// doubt notes that stores to a slot up to a time may not have been seen; to all slots if no watch is given. A slot that was
// observed later than that holds what was observed.
func (m *Machine) doubt(watch wire.Opt, time uint64) {
	for _, c := range m.chains {
		c.missed = max(c.missed, time)
		for j := range c.levels[:len(c.levels)-1] {
			l := &c.levels[j]
			if l.slot.known && l.slot.held.at <= time && (!watch.OK || uint64(l.watch) == watch.V) {
				l.slot.question(min(l.slot.held.at, time), time)
			}
		}
		m.step(c)
	}
}

// step sends the next command of a chain unless one is pending.
func (m *Machine) step(c *chain) {
	for c.live && c.pending.kind == none {
		cmd, ok := c.next()
		if !ok {
			m.settled(c)
			break
		}
		if cmd.kind == read && m.memory != nil {
			m.recall(c, cmd.level)
			continue
		}
		if m.broken == nil {
			m.broken = m.send(cmd.record())
		}
		if m.broken != nil {
			if cmd.moves() {
				c.mark(cmd.level, cmd.cause)
			}
			break
		}
		cmd.sent = m.now
		c.sent(cmd)
	}
	for _, g := range c.gaps {
		m.out = append(m.out, g)
	}
	c.gaps = c.gaps[:0]
}

// recall settles the doubt about a slot from the fixture.
func (m *Machine) recall(c *chain, j int) {
	l := &c.levels[j]
	at := l.slot.doubt.last
	v, ok := m.memory.Value(l.addr.V, at)
	l.slot.doubt.tries = maxTries
	c.learn(j, observation{value: wire.Opt{V: v & c.pointerMask(), OK: ok}, at: max(at, l.slot.held.at), until: at, reading: true})
}

// settled ends a time of trouble once all levels stand where they belong.
func (m *Machine) settled(c *chain) {
	if t := c.trouble; t.open && !c.failing() {
		c.gap(m.now, blind, t.since, wire.Some(m.now), t.detail)
		c.trouble = trouble{}
	}
}

// pass moves stream time on and looks for answers that are overdue.
func (m *Machine) pass(time uint64) {
	if time <= m.now {
		return
	}
	m.now = time
	for _, c := range m.chains {
		if cmd := c.pending; cmd.kind != none && m.now-cmd.sent > patience {
			if !c.overdue {
				m.say("%s (watch %d) was not moved in time: %v", c.levels[cmd.level].name, cmd.watch, errNoAnswer)
			}
			c.overdue = true
			c.abandon()
			m.step(c)
		}
		if m.broken != nil && !c.overdue {
			if since, waiting := c.unmet(); waiting && m.now > since && m.now-since > patience {
				m.say("%s is no longer followed: %v", c.leaf().name, m.broken)
				c.overdue = true
			}
		}
	}
}

// finish takes the end of the stream, at a time in ns. What waited for long was not followed for lack of control; the
// rest came too late to be.
func (m *Machine) finish(end uint64) {
	for _, c := range m.chains {
		if c.trouble.open {
			c.gap(end, blind, c.trouble.since, wire.Opt{}, c.trouble.detail)
		}
		since, waiting := c.unmet()
		switch {
		case waiting && end > since && end-since > patience:
			m.lost = fmt.Errorf("%s was not followed to the end: %w", c.leaf().name, cmp.Or(m.broken, errNoAnswer))
			c.gap(end, control, since, wire.Opt{}, m.lost.Error())
		case waiting:
			c.gap(end, blind, since, wire.Some(max(end, since)), "the session ended before the leaf could follow")
		}
		for _, g := range c.gaps {
			m.out = append(m.out, g)
		}
		c.gaps = c.gaps[:0]
	}
}
