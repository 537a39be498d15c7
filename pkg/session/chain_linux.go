//go:build amd64

package session

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"xw/pkg/control"
	"xw/pkg/watch"
	"xw/pkg/wire"
)

// chains moves the watches of chains as commands ask, and at the start as the pointers lead.
type chains struct {
	levels  []level       // by watch
	fifo    *control.FIFO // nil without
	refused refusals
	checked uint64                 // when losses were looked for
	lost    [watch.MaxSlots]uint64 // hits of each slot, as far as they were told of
}

// level is what a watch that is part of a chain is bound to now. A plain watch has no slot here.
type level struct {
	inChain bool
	root    bool // its address is fixed
	slot    int  // in the session's slots
	length  uint64
	bound   wire.Bound
	issued  uint64 // highest generation accepted
}

// refusals limits the control records of commands that are refused: a flood of garbage must not become a flood of
// records.
type refusals struct {
	window  uint64 // start of the present second
	written int    // in it
	dropped uint64 // since the last written one
}

const maxRefusals = 100 // records a second

// newChains prepares the levels of the session's watches.
func newChains(watches []wire.Watch) *chains {
	c := &chains{levels: make([]level, len(watches))}
	slot := 0
	for i, w := range watches {
		if w.Chain.OK {
			c.levels[i] = level{inChain: true, root: !w.Parent.OK, slot: slot, length: w.Len}
		}
		slot += len(w.Slots)
	}
	return c
}

// bindChains arms every level from the value of the one above, top down: a slot is armed first and read then, so that
// a store after the reading is a hit.
func (r *run) bindChains() error {
	if r.chains = newChains(r.watches); !r.hasChains() {
		return nil
	}
	if r.cfg.Control == "" {
		r.note("without --control and xw-rebind the levels of chains stay where the pointers led at the start")
	} else {
		var err error
		if r.chains.fifo, err = control.Open(r.cfg.Control); err != nil {
			return err
		}
	}
	for i := range r.watches {
		w, l := &r.watches[i], &r.chains.levels[i]
		if !l.inChain {
			continue
		}
		addr := w.Addr
		if w.Parent.OK {
			addr = r.childAddr(w)
		}
		r.bind(i, addr, 1)
		w.Addr, w.Slots[0].Addr = l.bound.Addr, l.bound.Addr.V
		if l.bound.Addr.OK && !l.bound.Value.OK && w.Role != "leaf" {
			r.noteUnreadable(w, l.bound.Addr.V)
		}
	}
	return nil
}

// noteUnreadable says why what is under a slot cannot be armed.
func (r *run) noteUnreadable(w *wire.Watch, addr uint64) {
	_, err := r.proc.ReadAt(make([]byte, w.Len), int64(addr))
	if !errors.Is(err, fs.ErrPermission) {
		r.note("%s: the pointer at %#x cannot be read, so nothing under it is watched: %v", w.Place, addr, err)
		return
	}
	cause := err.Error()
	if scope, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope"); err == nil {
		cause = fmt.Sprintf("Yama's ptrace_scope is %s: only a parent may read a process's memory", bytes.TrimSpace(scope))
	}
	r.note("%s: the pointer at %#x may not be read, so nothing under it is watched: %s", w.Place, addr, cause)
	r.io.Hint("run xw-open as root, or start the program by it: xw-open ... -- CMD")
}

func (r *run) hasChains() bool {
	for _, l := range r.chains.levels {
		if l.inChain {
			return true
		}
	}
	return false
}

// childAddr is where a level is now by the value that its parent's slot held when it was armed.
func (r *run) childAddr(w *wire.Watch) wire.Opt {
	parent := r.chains.levels[w.Parent.V].bound
	if !parent.Addr.OK || !parent.Value.OK || parent.Value.V == 0 {
		return wire.Opt{}
	}
	addr := parent.Value.V + uint64(w.Offset)
	if r.addressFault(addr, w.Len) != "" {
		return wire.Opt{}
	}
	return wire.Some(addr)
}

// addressFault says why nothing can be armed at an address; "" if it can.
func (r *run) addressFault(addr, length uint64) string {
	limit := wire.UserEnd(uint64(r.proc.Bits()))
	switch {
	case addr == 0:
		return "null address"
	case addr >= limit:
		return fmt.Sprintf("address %#x is not the process's: user addresses end at %#x", addr, limit)
	case length > 0 && addr%length != 0:
		return fmt.Sprintf("address %#x is not aligned to the level's %d bytes", addr, length)
	}
	return ""
}

// bind moves a level and remembers and writes how it is bound then; an absent address unbinds it.
func (r *run) bind(i int, addr wire.Opt, generation uint64) {
	l := &r.chains.levels[i]
	b := &l.bound
	start, end := watch.Now(), uint64(0)
	var err error
	if l.root {
		end = start
	} else {
		start, end, err = r.set.Move(l.slot, addr.V)
	}
	*b = wire.Bound{Time: end, Watch: uint32(i), Generation: generation, Addr: addr, Start: start}
	var errno syscall.Errno
	if err != nil {
		b.Errno = uint32(syscall.EINVAL)
		if errors.As(err, &errno) {
			b.Errno = uint32(errno)
		}
		b.Addr = wire.Opt{}
		// The kernel leaves the old watch where it refuses the new one, and it may have refused on one CPU only.
		if _, _, err := r.set.Move(l.slot, 0); err != nil {
			r.stop(StopError, err)
		}
	}
	b.Value = r.readValue(b.Addr, l.length)
	l.issued = generation
	r.bounds = append(r.bounds, *b)
}

// readValue reads what a slot holds; absent when it cannot be read.
func (r *run) readValue(addr wire.Opt, length uint64) wire.Opt {
	var b [8]byte
	if !addr.OK || length > 8 {
		return wire.Opt{}
	}
	if _, err := r.proc.ReadAt(b[:length], int64(addr.V)); err != nil {
		return wire.Opt{}
	}
	return wire.Some(binary.LittleEndian.Uint64(b[:]))
}

// takeCommands does what has arrived on the FIFO. Every command is answered in the stream.
func (r *run) takeCommands() error {
	messages, gone, err := r.chains.fifo.Read()
	for _, m := range messages {
		if m.Command == nil {
			r.refuse(m.Reason, m.Bin)
			continue
		}
		if reason := r.obey(m.Command); reason != "" {
			r.refuse(reason, m.Bin)
		}
	}
	if gone {
		r.refuse("the writer of the control FIFO has gone: levels stay where they are until another one comes", nil)
	}
	return err
}

// obey does one command; the answer is why it was refused.
func (r *run) obey(command wire.Record) string {
	switch c := command.(type) {
	case *wire.Bind:
		l, reason := r.movable(c.Watch, c.Generation)
		if reason == "" {
			reason = r.addressFault(c.Addr, l.length)
		}
		if reason == "" {
			r.bind(int(c.Watch), wire.Some(c.Addr), c.Generation)
		}
		return reason
	case *wire.Unbind:
		_, reason := r.movable(c.Watch, c.Generation)
		if reason == "" {
			r.bind(int(c.Watch), wire.Opt{}, c.Generation)
		}
		return reason
	case *wire.Read:
		if uint64(c.Watch) >= uint64(len(r.chains.levels)) || !r.chains.levels[c.Watch].inChain {
			return fmt.Sprintf("read: watch %d is no level of a chain", c.Watch)
		}
		l := r.chains.levels[c.Watch]
		b := l.bound
		b.Start = watch.Now()
		b.Value = r.readValue(b.Addr, l.length)
		b.Time = watch.Now()
		r.bounds = append(r.bounds, b)
	}
	return ""
}

// movable finds the level of a command that moves one.
func (r *run) movable(i uint32, generation uint64) (*level, string) {
	switch {
	case uint64(i) >= uint64(len(r.chains.levels)):
		return nil, fmt.Sprintf("watch %d is out of range: there are %d", i, len(r.chains.levels))
	case !r.chains.levels[i].inChain:
		return nil, fmt.Sprintf("watch %d is a plain watch", i)
	case r.chains.levels[i].root:
		return nil, fmt.Sprintf("watch %d is the top of its chain and does not move", i)
	case generation <= r.chains.levels[i].issued:
		return nil, fmt.Sprintf("stale: generation %d of watch %d, %d was accepted already", generation, i, r.chains.levels[i].issued)
	}
	return &r.chains.levels[i], ""
}

// refuse writes a control record, not too many of them.
func (r *run) refuse(reason string, bin []byte) {
	f, now := &r.chains.refused, watch.Now()
	if now-f.window > uint64(time.Second) {
		f.window, f.written = now, 0
	}
	if f.written >= maxRefusals {
		f.dropped++
		return
	}
	f.written++
	if f.dropped > 0 {
		reason = fmt.Sprintf("%s (and %d refusals before it without a record)", reason, f.dropped)
		f.dropped = 0
	}
	if bin == nil {
		bin = []byte{}
	}
	r.out.endChunk()
	r.out.write(&wire.ControlRecord{Time: now, Reason: reason, Bin: bin})
}

// lossPeriod is how often losses are looked for, in ns.
const lossPeriod = uint64(100 * time.Millisecond)

// tellLost says when hits on a pointer slot found no room in the rings. The kernel tells only with the next record that
// has room, and whoever follows the pointer has to know that it may have moved.
func (r *run) tellLost() {
	c, now := r.chains, watch.Now()
	if now-c.checked < lossPeriod || !r.hasChains() {
		return
	}
	since := max(c.checked, r.start)
	c.checked = now
	for i, s := range slots(r.watches, 0) {
		if !s.Wake {
			continue
		}
		lost, err := r.set.Lost(i)
		if err != nil || lost <= c.lost[i] {
			continue // without the number there is nothing to tell, and at the end it is asked for again
		}
		c.lost[i] = lost
		r.out.endChunk()
		r.out.write(&wire.Gap{Time: now, Reason: "lost", Watch: wire.Some(uint64(s.Watch)), From: wire.Some(since), To: wire.Some(now),
			Detail: "hits on the pointer found no room in the rings"})
		r.out.flush()
	}
}

// writeBounds writes the bindings made since the last call.
func (r *run) writeBounds() {
	if len(r.bounds) == 0 {
		return
	}
	r.out.endChunk()
	for i := range r.bounds {
		r.out.write(&r.bounds[i])
		r.rounds.binding = max(r.rounds.binding, r.bounds[i].Time)
	}
	r.bounds = r.bounds[:0]
}
