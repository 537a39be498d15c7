package insn

import "golang.org/x/arch/x86/x86asm"

// clobbers is the set of general registers that the instruction writes, those left out whose change can be undone: the
// stack pointer of push, pop and call, and the pointers of string instructions.
func (in *instr) clobbers() regSet {
	switch in.Op {
	case x86asm.XCHG, x86asm.XADD:
		return argSet(in.Args[0]) | argSet(in.Args[1])
	case x86asm.CMPXCHG:
		return argSet(in.Args[0]) | set(ax)
	case x86asm.CMPXCHG8B, x86asm.CMPXCHG16B, x86asm.MUL, x86asm.DIV, x86asm.IDIV:
		return set(ax, dx)
	case x86asm.IMUL:
		if in.Args[1] == nil {
			return set(ax, dx)
		}
	case x86asm.MULX:
		return argSet(in.Args[0]) | argSet(in.Args[1])
	case x86asm.PCMPESTRI, x86asm.PCMPISTRI, x86asm.VPCMPESTRI, x86asm.VPCMPESTRI64, x86asm.VPCMPISTRI,
		x86asm.VPCMPISTRI64:
		return set(cx)
	case x86asm.CMP, x86asm.TEST, x86asm.BT, x86asm.PUSH, x86asm.CALL, x86asm.JMP, x86asm.BOUND, x86asm.INVPCID,
		opMOVDIR64B:
		return 0
	case opUnnamed: // and its displacement may be scaled
		return 0xffff
	}
	return argSet(in.Args[0])
}

// argSet is the set of an argument that is a general register.
func argSet(arg x86asm.Arg) regSet {
	if n, _, _, ok := generalArg(arg); ok {
		return set(n)
	}
	return 0
}

func generalArg(arg x86asm.Arg) (number, size, shift int, ok bool) {
	if r, isReg := arg.(x86asm.Reg); isReg {
		return general(r)
	}
	return 0, 0, 0, false
}
