package insn

import (
	"math/bits"

	"golang.org/x/arch/x86/x86asm"

	"xw/pkg/wire"
)

// derive gives what went through an access as far as the registers after the instruction and its immediates say so with
// certainty: loaded is what the place held before, stored what it holds after. Both are of the access's whole size.
func (in *instr) derive(m *machine, a *access) (stored, loaded wire.Opt) {
	if a.arg < 0 {
		return in.deriveImplied(m, a)
	}
	size := int(a.size)
	switch in.Op {
	case x86asm.MOV, x86asm.MOVNTI, opMOVDIRI,
		x86asm.STOSB, x86asm.STOSW, x86asm.STOSD, x86asm.STOSQ,
		x86asm.LODSB, x86asm.LODSW, x86asm.LODSD, x86asm.LODSQ:
		other := in.operand(m, 1-a.arg, size)
		if a.role == writes {
			return other, wire.Opt{}
		}
		return wire.Opt{}, other
	case x86asm.MOVBE:
		other := in.operand(m, 1-a.arg, size)
		other.V = bits.ReverseBytes64(other.V) >> (64 - 8*size)
		if a.role == writes {
			return other, wire.Opt{}
		}
		return wire.Opt{}, other
	case x86asm.MOVZX, x86asm.MOVSX, x86asm.MOVSXD:
		return wire.Opt{}, in.operand(m, 0, size)
	case x86asm.XLATB:
		return wire.Opt{}, truncated(m, ax, 1)
	case x86asm.XCHG, x86asm.XADD:
		return wire.Opt{}, in.operand(m, 1, size)
	case x86asm.CMPXCHG: // equal: the accumulator was the old value already; else it is loaded with it
		return wire.Opt{}, truncated(m, ax, size)
	case x86asm.CMPXCHG8B:
		return wire.Opt{}, pair(truncated(m, dx, 4), truncated(m, ax, 4))
	case x86asm.AND, x86asm.OR:
		return in.constant(size), wire.Opt{}
	}
	return wire.Opt{}, wire.Opt{}
}

// changes tells whether an instruction leaves something else in its operand, of size bytes, than it found there, whatever
// that was.
func (in *instr) changes(size int) bool {
	switch in.Op {
	case x86asm.INC, x86asm.DEC, x86asm.NOT, x86asm.BTC:
		return true
	case x86asm.ADD, x86asm.SUB, x86asm.XOR:
		imm, ok := in.Args[1].(x86asm.Imm)
		return ok && truncate(uint64(imm), size) != 0
	}
	return false
}

// deriveImplied is derive for the stack.
func (in *instr) deriveImplied(m *machine, a *access) (stored, loaded wire.Opt) {
	size := int(a.size)
	switch in.Op {
	case x86asm.PUSH:
		v := in.operand(m, 0, size)
		if n, _, _, ok := generalArg(in.Args[0]); ok && n == sp {
			v.V = truncate(v.V+a.size, size) // the pointer as it was before
		}
		return v, wire.Opt{}
	case x86asm.CALL:
		return wire.Some(in.next()), wire.Opt{}
	case x86asm.POP:
		return wire.Opt{}, in.operand(m, 0, size)
	case x86asm.LEAVE:
		return wire.Opt{}, truncated(m, bp, size)
	}
	return wire.Opt{}, wire.Opt{}
}

// operand is the value of a register or an immediate among the arguments, cut to size.
func (in *instr) operand(m *machine, index, size int) wire.Opt {
	switch arg := in.Args[index].(type) {
	case x86asm.Imm:
		return wire.Some(truncate(uint64(arg), size))
	case x86asm.Reg:
		if v, have, ok := m.register(arg); ok && have >= size {
			return wire.Some(truncate(v, size))
		}
	}
	return wire.Opt{}
}

// constant is what AND with 0 and OR with all ones store.
func (in *instr) constant(size int) wire.Opt {
	imm, ok := in.Args[1].(x86asm.Imm)
	v := truncate(uint64(imm), size)
	if ok && (in.Op == x86asm.AND && v == 0 || in.Op == x86asm.OR && v == truncate(^uint64(0), size)) {
		return wire.Some(v)
	}
	return wire.Opt{}
}

func truncated(m *machine, number, size int) wire.Opt {
	v, ok := m.number(number)
	return wire.Opt{V: truncate(v, size), OK: ok && size <= m.bits/8}
}

func pair(high, low wire.Opt) wire.Opt {
	return wire.Opt{V: high.V<<32 | low.V, OK: high.OK && low.OK}
}
