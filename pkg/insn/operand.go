package insn

import (
	"math/bits"

	"golang.org/x/arch/x86/x86asm"
)

// access is one place in memory that an instruction reads or writes.
type access struct {
	arg  int // index in the instruction's Args, or -1 for a place that is implied, as the stack is
	role role
	addr uint64 // first byte, when known
	size uint64 // bytes
	// known is false where addr hangs on a register that the instruction has overwritten, on the base of fs or gs, on a
	// vector register, or on registers that were not sampled.
	known bool
	// stepped is set for a string operand: addr is where the pointer stands after the step of size bytes, in a direction
	// that the registers do not tell.
	stepped bool
}

// span is the range of a step operand for a direction, and for what the CPU may report late: slack more bytes that the
// steps before went over.
func (a *access) span(down bool, slack uint64) (first, end uint64) {
	switch {
	case !a.stepped:
		return a.addr, a.addr + a.size
	case down:
		return a.addr + a.size, a.addr + 2*a.size + slack
	}
	return a.addr - a.size - slack, a.addr
}

// accesses lists what the instruction touches, given the registers after it.
func (in *instr) accesses(m *machine) []access {
	list := make([]access, 0, 3)
	switch {
	case in.isString():
		return in.stringAccesses(m, list)
	case in.Op == x86asm.XLATB:
		return append(list, access{arg: 0, role: reads, size: 1})
	}
	list = in.impliedAccesses(m, list)
	clobbered := in.clobbers()
	for i, arg := range in.Args {
		mem, ok := arg.(x86asm.Mem)
		if !ok {
			continue
		}
		r := roleOf(in.Op, i)
		if r == 0 {
			continue
		}
		a := access{arg: i, role: r, size: uint64(in.memSize())}
		a.addr, a.known = in.effective(m, mem, clobbered)
		list = append(list, in.bitAccess(m, a))
	}
	return list
}

// stringAccesses are those of the string instructions: the pointers have moved by one element.
func (in *instr) stringAccesses(m *machine, list []access) []access {
	for i, arg := range in.Args {
		mem, ok := arg.(x86asm.Mem)
		if !ok {
			continue
		}
		a := access{arg: i, role: roleOf(in.Op, i), size: uint64(in.element()), stepped: true}
		a.addr, a.known = in.effective(m, mem, 0)
		list = append(list, a)
	}
	return list
}

// impliedAccesses are those without an operand of their own: the stack, and where MASKMOVDQU and MOVDIR64B store.
func (in *instr) impliedAccesses(m *machine, list []access) []access {
	word := uint64(in.stackWord())
	at := func(r role, register int, offset int64, size uint64) []access {
		base, known := m.number(register)
		return append(list, access{arg: -1, role: r, addr: in.wrap(base + uint64(offset)), size: size, known: known})
	}
	switch in.Op {
	case x86asm.PUSH, x86asm.PUSHF, x86asm.PUSHFD, x86asm.PUSHFQ, x86asm.CALL:
		return at(writes, sp, 0, word)
	case x86asm.LCALL:
		return at(writes, sp, 0, 2*word)
	case x86asm.PUSHA, x86asm.PUSHAD:
		return at(writes, sp, 0, 8*word)
	case x86asm.POP:
		if n, _, _, ok := generalArg(in.Args[0]); ok && n == sp {
			return append(list, access{arg: -1, role: reads, size: word})
		}
		return at(reads, sp, -int64(word), word)
	case x86asm.POPF, x86asm.POPFD, x86asm.POPFQ, x86asm.LEAVE:
		return at(reads, sp, -int64(word), word)
	case x86asm.POPA, x86asm.POPAD:
		return at(reads, sp, -int64(8*word), 8*word)
	case x86asm.RET:
		cleared, _ := in.Args[0].(x86asm.Imm)
		return at(reads, sp, -int64(word)-int64(cleared), word)
	case x86asm.ENTER:
		level, _ := in.Args[1].(x86asm.Imm)
		return at(writes, bp, -int64(word)*int64(level&31), word*uint64(level&31+1))
	case x86asm.MASKMOVDQU, x86asm.VMASKMOVDQU:
		return in.storeAt(m, list, di, 16)
	case x86asm.MASKMOVQ:
		return in.storeAt(m, list, di, 8)
	case opMOVDIR64B:
		if n, _, _, ok := generalArg(in.Args[0]); ok {
			return in.storeAt(m, list, n, 64)
		}
	}
	return list
}

// storeAt adds a store to where a register points.
func (in *instr) storeAt(m *machine, list []access, register int, size uint64) []access {
	base := x86asm.RAX
	if in.bits == 32 || in.pre.addrSize {
		base = x86asm.EAX
	}
	mem := x86asm.Mem{Segment: in.pre.segmentReg(), Base: base + x86asm.Reg(register)}
	a := access{arg: -1, role: writes, size: size}
	a.addr, a.known = in.effective(m, mem, 0)
	return append(list, a)
}

// effective is the address of a memory operand.
func (in *instr) effective(m *machine, mem x86asm.Mem, clobbered regSet) (addr uint64, known bool) {
	if mem.Segment == x86asm.FS || mem.Segment == x86asm.GS {
		return 0, false
	}
	addr = uint64(mem.Disp)
	width := in.bits / 8
	switch mem.Base {
	case 0:
	case x86asm.RIP, x86asm.EIP:
		addr += in.next()
		if mem.Base == x86asm.EIP {
			width = 4
		}
	default:
		v, size, ok := in.pointer(m, mem.Base, clobbered)
		if !ok {
			return 0, false
		}
		addr += v
		width = size
	}
	if mem.Index != 0 {
		v, size, ok := in.pointer(m, mem.Index, clobbered)
		if !ok {
			return 0, false
		}
		addr += v * uint64(mem.Scale)
		width = size
	}
	return truncate(addr, width), true
}

// pointer is the value that a base or index register had when the address was made.
func (in *instr) pointer(m *machine, r x86asm.Reg, clobbered regSet) (v uint64, size int, ok bool) {
	n, _, _, ok := general(r)
	if !ok || clobbered.has(n) {
		return 0, 0, false
	}
	v, size, ok = m.register(r)
	if n == sp && (in.Op == x86asm.PUSH || in.Op == x86asm.CALL) {
		v += uint64(in.stackWord()) // the address was made before the push
	}
	return v, size, ok
}

// bitAccess moves the place of a bit instruction: its bit offset, in a register, reaches beyond the operand.
func (in *instr) bitAccess(m *machine, a access) access {
	switch in.Op {
	case x86asm.BT, x86asm.BTC, x86asm.BTR, x86asm.BTS:
	default:
		return a
	}
	r, ok := in.Args[1].(x86asm.Reg)
	if !ok || !a.known {
		return a
	}
	bit, size, ok := m.register(r)
	words := int64(extend(bit, size)) >> bits.TrailingZeros(uint(8*size))
	a.addr = in.wrap(a.addr + uint64(words*int64(size)))
	a.known = ok
	return a
}

// wrap cuts an address to the mode's width.
func (in *instr) wrap(addr uint64) uint64 { return truncate(addr, in.bits/8) }

// stackWord is the size of what the instruction pushes or pops, in bytes.
func (in *instr) stackWord() int {
	if in.pre.opSize && in.Op != x86asm.CALL && in.Op != x86asm.RET {
		return 2
	}
	return in.bits / 8
}

// memSize is the size of the explicit memory operand in bytes; for XSAVE and its like the most that it can be.
func (in *instr) memSize() int {
	switch in.Op {
	case x86asm.FXSAVE, x86asm.FXSAVE64, x86asm.FXRSTOR, x86asm.FXRSTOR64:
		return 512
	case x86asm.XSAVE, x86asm.XSAVE64, x86asm.XSAVEC, x86asm.XSAVEC64, x86asm.XSAVEOPT, x86asm.XSAVEOPT64,
		x86asm.XSAVES, x86asm.XSAVES64, x86asm.XRSTOR, x86asm.XRSTOR64, x86asm.XRSTORS, x86asm.XRSTORS64:
		return 16 << 10
	case x86asm.FNSAVE, x86asm.FRSTOR:
		return in.byOperandSize(94, 108)
	case x86asm.FNSTENV, x86asm.FLDENV:
		return in.byOperandSize(14, 28)
	case x86asm.FLD, x86asm.FSTP, x86asm.FBLD, x86asm.FBSTP:
		if in.MemBytes == 0 {
			return 10
		}
	case x86asm.SGDT, x86asm.SIDT, x86asm.LGDT, x86asm.LIDT:
		return 2 + in.bits/8
	case x86asm.LCALL, x86asm.LJMP, x86asm.LDS, x86asm.LES, x86asm.LFS, x86asm.LGS, x86asm.LSS:
		return 2 + in.DataSize/8
	case x86asm.CMPXCHG16B, x86asm.INVPCID:
		return 16
	case x86asm.CLFLUSH, opCLFLUSHOPT, opCLWB:
		return 1
	}
	if in.MemBytes == 0 {
		return 64 // not known: as much as the widest operand
	}
	return in.MemBytes
}

func (in *instr) byOperandSize(short, long int) int {
	if in.pre.opSize {
		return short
	}
	return long
}

// isString tells the string instructions, which may be repeated.
func (in *instr) isString() bool { return in.element() != 0 }

// element is the size of a string instruction's element in bytes, 0 for all others.
func (in *instr) element() int {
	switch in.Op {
	case x86asm.MOVSB, x86asm.CMPSB, x86asm.STOSB, x86asm.LODSB, x86asm.SCASB, x86asm.INSB, x86asm.OUTSB:
		return 1
	case x86asm.MOVSW, x86asm.CMPSW, x86asm.STOSW, x86asm.LODSW, x86asm.SCASW, x86asm.INSW, x86asm.OUTSW:
		return 2
	case x86asm.MOVSD, x86asm.CMPSD, x86asm.STOSD, x86asm.LODSD, x86asm.SCASD, x86asm.INSD, x86asm.OUTSD:
		return 4
	case x86asm.MOVSQ, x86asm.CMPSQ, x86asm.STOSQ, x86asm.LODSQ, x86asm.SCASQ:
		return 8
	}
	return 0
}

// repeated tells a string instruction with a repeat prefix.
func (in *instr) repeated() bool { return in.pre.repeat != 0 && in.isString() }
