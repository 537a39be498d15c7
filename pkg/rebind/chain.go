package rebind

import (
	"fmt"

	"xw/pkg/wire"
)

// chain is one chain of pointers: slots, each of which says where the next level is, and the leaf. What it knows is
// what the stream has shown; next compares that with what ought to be and says which single command comes next. So a
// store that comes at any moment, in any order, needs no state of its own: it changes what ought to be.
type chain struct {
	levels []level
	bits   uint64 // of a pointer: 32 or 64

	// live is false until the stream has shown the chain as xw-open armed it: until then nothing can be amiss.
	live    bool
	pending command // sent and not yet answered
	stray   command // the last one that was given up: its answer may yet come
	overdue bool    // a person was told that control does not work
	trouble trouble
	missed  uint64      // ns, the latest time of a store that may not have been seen
	gaps    []*wire.Gap // to be written out
}

// level is one watch of a chain.
type level struct {
	watch  uint32
	name   string
	length uint64
	offset int64

	// The binding that xw-open announced last.
	addr      wire.Opt // absent while unbound
	gen       uint64
	announced bool
	unsure    bool // a command since then was not answered, but may have been carried out

	issued  uint64   // highest generation sent or announced
	cause   wire.Opt // time of the store since which the level may stand in the wrong place
	refused wire.Opt // address that could not be armed, not tried again before the slot above is written
	slot    slot     // of all levels but the leaf
}

// trouble is a time in which the leaf cannot be followed and no command helps.
type trouble struct {
	open   bool
	since  uint64
	detail string
}

// leaf returns the last level.
func (c *chain) leaf() *level { return &c.levels[len(c.levels)-1] }

// announced tells whether the stream has shown every level's first binding.
func (c *chain) announced() bool {
	for j := range c.levels {
		if !c.levels[j].announced {
			return false
		}
	}
	return true
}

// pointerMask covers the bytes of a pointer.
func (c *chain) pointerMask() uint64 { return ^uint64(0) >> (64 - c.bits) }

// place returns where level j is when the slot above it holds pointer; absent where nothing can be armed: the pointer
// is null or no user address, or the place is misaligned.
func (c *chain) place(j int, pointer uint64) wire.Opt {
	limit := wire.UserEnd(c.bits)
	l := &c.levels[j]
	addr := pointer + uint64(l.offset)
	if pointer == 0 || pointer >= limit || addr == 0 || addr >= limit || addr%l.length != 0 {
		return wire.Opt{}
	}
	return wire.Some(addr)
}

// pointee returns where level j belongs by what the slot above it holds, armed or refused.
func (c *chain) pointee(j int) wire.Opt {
	above := &c.levels[j-1]
	if !above.addr.OK || !above.slot.held.value.OK {
		return wire.Opt{}
	}
	return c.place(j, above.slot.held.value.V)
}

// want returns the address at which level j ought to be armed; absent: at none.
func (c *chain) want(j int) wire.Opt {
	addr := c.pointee(j)
	if addr == c.levels[j].refused {
		return wire.Opt{}
	}
	return addr
}

// aim returns where level j stands once the pending command is done.
func (c *chain) aim(j int) wire.Opt {
	if c.pending.moves() && c.pending.level == j {
		return c.pending.addr
	}
	return c.levels[j].addr
}

// mark notes that level j, and so all below it, may stand in the wrong place since t.
func (c *chain) mark(j int, t uint64) {
	for i := j; i < len(c.levels); i++ {
		l := &c.levels[i]
		if !l.cause.OK || t < l.cause.V {
			l.cause = wire.Some(t)
		}
	}
}

// next returns the command to send now that none is pending. Levels come first, from the top down, each with what the
// binding of the one above has brought to light; then slots whose value is in doubt, the oldest doubt first.
func (c *chain) next() (command, bool) {
	for j := 1; j < len(c.levels); j++ {
		above, l := &c.levels[j-1], &c.levels[j]
		if above.addr.OK && !above.slot.known {
			break
		}
		want := c.want(j)
		switch {
		case want == l.addr && !want.OK && !l.unsure:
			c.dismiss(j)
		case !want.OK:
			return c.command(unbind, j, want, c.nowhere())
		case l.cause.OK:
			return c.command(bind, j, want, l.cause.V)
		case want != l.addr:
			return c.command(bind, j, want, above.slot.held.at)
		}
	}
	oldest := -1
	for j := range c.levels[:len(c.levels)-1] {
		l := &c.levels[j]
		if l.addr.OK && l.slot.doubt.open && (oldest < 0 || l.slot.doubt.since < c.levels[oldest].slot.doubt.since) {
			oldest = j
		}
	}
	if oldest < 0 {
		return command{}, false
	}
	l := &c.levels[oldest]
	return command{kind: read, level: oldest, watch: l.watch, gen: l.gen}, true
}

// command returns a command that moves level j, not ok when there is no generation left for it.
func (c *chain) command(k kind, j int, addr wire.Opt, cause uint64) (command, bool) {
	gen := c.generation(j)
	return command{kind: k, level: j, watch: c.levels[j].watch, addr: addr, gen: gen, cause: cause}, gen != 0
}

// nowhere returns since when no level is left at the end of the chain: a slot holds nothing that can be followed, or what
// it points to is out of reach.
func (c *chain) nowhere() uint64 {
	for j := 1; j < len(c.levels); j++ {
		held := c.levels[j-1].slot.held
		switch {
		case c.want(j).OK:
		case c.pointee(j).OK || !held.value.OK:
			return c.trouble.since
		default:
			return held.since
		}
	}
	return 0
}

// dismiss ends what level j was waiting for, since it is nowhere. Before, it may have been somewhere.
func (c *chain) dismiss(j int) {
	l := &c.levels[j]
	if since := c.nowhere(); l == c.leaf() && l.cause.OK && l.cause.V < since {
		c.gap(since, blind, l.cause.V, wire.Some(since), "the leaf was gone before it could be followed")
	}
	l.cause = wire.Opt{}
}

// generation returns one above all that level j and those below it ever had, so that a descent carries one generation
// to the leaf. It is 0 when there is none left.
func (c *chain) generation(j int) uint64 {
	highest := uint64(0)
	for i := j; i < len(c.levels); i++ {
		highest = max(highest, c.levels[i].issued)
	}
	if highest+1 == 0 {
		return 0
	}
	return max(highest+1, c.levels[j-1].gen)
}

// sent notes that cmd is on its way.
func (c *chain) sent(cmd command) {
	c.pending = cmd
	l := &c.levels[cmd.level]
	if cmd.kind == read {
		l.slot.doubt.tries++
		l.slot.doubt.asked = l.slot.doubt.hits
		return
	}
	if cmd.kind == unbind {
		c.dismiss(cmd.level)
	}
	l.issued, l.cause = cmd.gen, wire.Opt{}
	l.slot.early = store{}
}

// abandon gives up the answer to the pending command, so that next asks again.
func (c *chain) abandon() {
	cmd := c.pending
	c.pending = command{}
	if !cmd.moves() {
		return
	}
	c.mark(cmd.level, cmd.cause)
	c.levels[cmd.level].unsure = true
	c.stray = cmd
}

// answered returns the command that an announcement of generation gen for level j answers, if there is one.
func (c *chain) answered(j int, gen uint64) command {
	for _, waiting := range []*command{&c.pending, &c.stray} {
		if cmd := *waiting; cmd.kind != none && cmd.level == j && cmd.gen == gen {
			*waiting = command{}
			return cmd
		}
	}
	return command{}
}

// bound takes an announcement for level j and returns the command that it answers, if there is one that moved the
// level, and the address before.
func (c *chain) bound(j int, b *wire.Bound) (cmd command, old wire.Opt) {
	l := &c.levels[j]
	if b.Generation < l.gen {
		return command{}, wire.Opt{}
	}
	cmd = c.answered(j, b.Generation)
	old = l.addr
	fresh := b.Generation > l.gen || !l.announced
	l.gen, l.announced, l.unsure = b.Generation, true, false
	l.issued = max(l.issued, l.gen)
	l.addr = b.Addr
	switch {
	case cmd.kind == unbind:
		l.addr = wire.Opt{}
	case cmd.kind == bind && (b.Errno != 0 || b.Addr != cmd.addr):
		c.refuse(cmd, fmt.Sprintf("%s could not be armed at 0x%x: errno %d", l.name, cmd.addr.V, b.Errno))
		if l.addr == cmd.addr {
			l.addr = wire.Opt{}
		}
	case cmd.kind == none && b.Errno != 0 && j > 0:
		l.refused = c.pointee(j)
		c.fail(b.Start, fmt.Sprintf("%s could not be armed: errno %d", l.name, b.Errno))
	}
	if l != c.leaf() {
		c.readSlot(j, b, fresh)
	}
	return cmd, old
}

// readSlot takes the value that an announcement for slot j carries. A store between the arming and the reading may be
// in that value or after it: what came early is taken as a store after it.
func (c *chain) readSlot(j int, b *wire.Bound, fresh bool) {
	l := &c.levels[j]
	early := l.slot.early
	switch {
	case !l.addr.OK:
		l.slot = slot{}
		return
	case fresh:
		l.slot = slot{}
		c.retry(j)
	}
	value := b.Value
	value.V &= c.pointerMask()
	c.learn(j, observation{value: value, at: b.Start, until: b.Time, reading: true})
	if !fresh {
		return
	}
	if early.seen && early.at >= b.Start {
		c.hit(j, early.observation)
	}
	if c.missed >= b.Start {
		l.slot.question(b.Start, c.missed)
	}
}

// refuse notes that the level cannot be armed where cmd wanted it.
func (c *chain) refuse(cmd command, detail string) {
	c.levels[cmd.level].refused = cmd.addr
	c.fail(cmd.cause, detail)
}

// retry makes the levels below slot j be tried again where they were refused.
func (c *chain) retry(j int) {
	for i := j + 1; i < len(c.levels); i++ {
		c.levels[i].refused = wire.Opt{}
	}
}

func (c *chain) fail(since uint64, detail string) {
	if !c.trouble.open {
		c.trouble = trouble{true, since, detail}
	}
}

// failing tells whether the leaf cannot be followed and no command helps.
func (c *chain) failing() bool {
	for j := 1; j < len(c.levels); j++ {
		above := &c.levels[j-1]
		if !above.addr.OK {
			return false // nothing there, by the slots above
		}
		if above.slot.known && !above.slot.held.value.OK {
			return true
		}
		if addr := c.pointee(j); addr.OK && addr == c.levels[j].refused {
			return true
		}
	}
	return false
}

// unmet returns since when a store waits for the leaf to follow it.
func (c *chain) unmet() (since uint64, waiting bool) {
	earlier := func(t uint64) {
		if !waiting || t < since {
			since, waiting = t, true
		}
	}
	if !c.live {
		return 0, false
	}
	if c.pending.moves() {
		earlier(c.pending.cause)
	}
	for j := range c.levels {
		l := &c.levels[j]
		if l.cause.OK {
			earlier(l.cause.V)
		}
		if l.slot.doubt.open {
			earlier(l.slot.doubt.since)
		}
	}
	return since, waiting
}

// gap adds a record of a time in which the leaf was not followed.
func (c *chain) gap(now uint64, reason string, from uint64, to wire.Opt, detail string) {
	c.gaps = append(c.gaps, &wire.Gap{Time: now, Reason: reason, Watch: wire.Some(uint64(c.leaf().watch)),
		From: wire.Some(from), To: to, Detail: detail})
}
