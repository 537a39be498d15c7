package report

import (
	"bytes"
	"encoding/binary"
	"slices"

	"xw/pkg/wire"
)

// One access can be several hits: a store that is wider than a slot hits every slot it covers, a rep string instruction
// hits once per iteration, a copy by the kernel once per byte or word. The registers of consecutive hits of a thread
// tell which of them belong together; whether an advancing register means a repeated instruction or a loop is only
// known once the instruction is, so both are counted.

// folded counts the hits of a site that may belong to the access of the hit before.
type folded struct {
	wide    uint64 // one execution seen by several slots: same place and registers, another slot
	rep     uint64 // one more iteration, if the instruction is a rep string one
	unclear uint64 // hits in the kernel of which neither can be told
	unknown uint64 // hits without registers

	ends uint64  // of rep, those reported behind the instruction, as its last iteration is
	from siteKey // where the iteration before the last one of rep was reported
}

type relation int

const (
	separate relation = iota
	wide
	iteration
	unclear
)

// add counts a hit that relates to the one before, which was at a place.
func (f *folded) add(r relation, before, at siteKey) {
	switch r {
	case wide:
		f.wide++
	case iteration:
		f.rep++
		f.from = before
		if before != at {
			f.ends++
		}
	case unclear:
		f.unclear++
	}
}

// addAll adds the counts of another site.
func (f *folded) addAll(other *folded) {
	f.wide += other.wide
	f.rep += other.rep
	f.unclear += other.unclear
	f.unknown += other.unknown
}

// accesses returns the number of accesses that made hits, if it is decided. repeats tells whether the instruction is a
// rep string one; it is not asked for if no hit depends on it.
func (f *folded) accesses(hits uint64, kernel bool, repeats func() (yes, known bool)) wire.Opt {
	if f.unknown > 0 || f.unclear > 0 {
		return wire.Opt{}
	}
	n := hits - f.wide
	if f.rep == 0 {
		return wire.Some(n)
	}
	if kernel { // a loop of the kernel is one copy, whatever instructions it is made of
		return wire.Some(n - f.rep)
	}
	yes, known := repeats()
	switch {
	case !known:
		return wire.Opt{}
	case yes:
		n -= f.rep
	}
	return wire.Some(n)
}

// regLayout says where in a sample's registers those stand that a string instruction moves; -1 if they are not there.
type regLayout struct {
	names       []string
	order       [16]int // of the general registers, as orderOf has it
	cx, si, di  int
	sizeInBytes int
}

func newRegLayout(names []string) regLayout {
	return regLayout{
		names: names,
		order: orderOf(names),
		cx:    slices.Index(names, "rcx"), si: slices.Index(names, "rsi"), di: slices.Index(names, "rdi"),
		sizeInBytes: 8 * len(names),
	}
}

// fits tells whether regs have the announced form; those that were not taken do.
func (l *regLayout) fits(regs []byte) bool {
	return regs == nil || len(regs) == l.sizeInBytes && len(regs) > 0
}

func reg(regs []byte, i int) uint64 { return binary.LittleEndian.Uint64(regs[8*i:]) }

// lastHit is the last hit of a thread on a watch.
type lastHit struct {
	ok    bool
	key   siteKey
	regs  []byte
	slots uint64 // bits of the slots that this execution has hit
	access
}

// follow makes s the last hit and says how it relates to the one before, where that was, and how far the copy went since,
// in bytes.
func (h *lastHit) follow(s *wire.Sample, key siteKey, slot uint32, layout *regLayout) (r relation, before siteKey, moved uint64) {
	before = h.key
	if h.ok {
		r = h.relate(key, s.Regs, uint64(1)<<(slot&63), layout)
	}
	if r == iteration {
		moved = layout.moved(h.regs, s.Regs)
	}
	if r != wide {
		h.slots = 0
	}
	h.slots |= uint64(1) << (slot & 63)
	h.ok, h.key = true, key
	h.regs = append(h.regs[:0], s.Regs...)
	return r, before, moved
}

func (h *lastHit) relate(key siteKey, regs []byte, slot uint64, layout *regLayout) relation {
	switch {
	case h.key.origin != key.origin:
		return separate
	case key.origin != 0 && (h.key.userIP != key.userIP || h.key.syscall != key.syscall):
		return separate
	case key == h.key && bytes.Equal(h.regs, regs):
		if h.slots&slot == 0 {
			return wide
		}
		return separate
	case layout.advanced(h.regs, regs, key.origin != 0) && (key.ip == h.key.ip || left(h.key.ip, key.ip) && reg(regs, layout.cx) == 0):
		return iteration
	case key.origin != 0 && key.ip != h.key.ip && !layout.restarted(h.regs, regs):
		return unclear
	}
	return separate
}

// left tells whether to can be the address after a rep string instruction at from: the last iteration's hit is reported
// there. The instruction has two to four bytes (prefixes and opcode).
func left(from, to uint64) bool { return to-from >= 2 && to-from <= 4 }

// advanced tells whether, from one hit to the next, rcx went down and rdi or rsi moved along with it, as a string
// instruction's registers do, while all else stayed as it was. A loop of the kernel may carry the data in others.
func (l *regLayout) advanced(old, now []byte, kernel bool) bool {
	if l.cx < 0 || l.si < 0 || l.di < 0 {
		return false
	}
	n := reg(old, l.cx) - reg(now, l.cx)
	if n == 0 || reg(now, l.cx) > reg(old, l.cx) {
		return false
	}
	di, si := reg(now, l.di)-reg(old, l.di), reg(now, l.si)-reg(old, l.si)
	if !stride(di, n) && !stride(si, n) || di != 0 && !stride(di, n) || si != 0 && !stride(si, n) {
		return false
	}
	for i := range l.names {
		if !kernel && i != l.cx && i != l.si && i != l.di && reg(old, i) != reg(now, i) {
			return false
		}
	}
	return true
}

// moved is how far rdi, or else rsi, moved from one hit of a copy to the next.
func (l *regLayout) moved(old, now []byte) uint64 {
	d := int64(reg(now, l.di) - reg(old, l.di))
	if d == 0 {
		d = int64(reg(now, l.si) - reg(old, l.si))
	}
	return uint64(max(d, -d))
}

// stride tells whether a register that moved by d made n steps of 1, 2, 4 or 8 bytes in either direction. A loop of the
// kernel counts in rcx the bytes that are left, so that a step of rcx may be one of the address.
func stride(d, n uint64) bool {
	for _, size := range []uint64{1, 2, 4, 8} {
		if d == n*size || d == -n*size {
			return true
		}
	}
	return false
}

// restarted tells whether rcx went up: another copy has begun.
func (l *regLayout) restarted(old, now []byte) bool {
	return l.cx >= 0 && reg(now, l.cx) > reg(old, l.cx)
}
