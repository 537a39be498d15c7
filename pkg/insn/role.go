package insn

import (
	"strings"

	"golang.org/x/arch/x86/x86asm"
)

// role is what an instruction does to a memory operand. The zero role is an operand that is named and not accessed.
type role uint8

const (
	reads role = 1 << iota
	writes
	// unnamed is the role of an operand of an instruction that is not known well enough to say.
	unnamed
)

// op is the operation's name in results.
func (r role) op() string {
	switch r {
	case reads:
		return Read
	case writes:
		return Write
	case reads | writes:
		return ReadWrite
	}
	return Unknown
}

// roleOf is the role of the memory operand with the given index in the instruction's arguments (Intel SDM, volume 2).
func roleOf(op x86asm.Op, index int) role {
	if op == opUnnamed {
		return unnamed
	}
	if touchesNothing(op) {
		return 0
	}
	if index > 0 {
		return reads
	}
	switch {
	case isVectorStore(op), isPlainStore(op):
		return writes
	case isUpdate(op):
		return reads | writes
	case isLoad(op):
		return reads
	}
	return unnamed
}

// touchesNothing lists what has a memory operand and does not access it as data: the CPU reports no breakpoint there.
func touchesNothing(op x86asm.Op) bool {
	switch op {
	case x86asm.LEA, x86asm.NOP, x86asm.UD0, x86asm.UD1, x86asm.INVLPG,
		x86asm.PREFETCHNTA, x86asm.PREFETCHT0, x86asm.PREFETCHT1, x86asm.PREFETCHT2, x86asm.PREFETCHW,
		x86asm.VGATHERPF0DPD, x86asm.VGATHERPF0DPS, x86asm.VGATHERPF0QPD, x86asm.VGATHERPF0QPS,
		x86asm.VGATHERPF1DPD, x86asm.VGATHERPF1DPS, x86asm.VGATHERPF1QPD, x86asm.VGATHERPF1QPS,
		x86asm.VSCATTERPF0DPD, x86asm.VSCATTERPF0DPS, x86asm.VSCATTERPF0QPD, x86asm.VSCATTERPF0QPS,
		x86asm.VSCATTERPF1DPD, x86asm.VSCATTERPF1DPS, x86asm.VSCATTERPF1QPD, x86asm.VSCATTERPF1QPS:
		return true
	}
	return false
}

// isUpdate lists what reads its first operand and writes it back, a compare that fails included.
func isUpdate(op x86asm.Op) bool {
	switch op {
	case x86asm.ADC, x86asm.ADD, x86asm.AND, x86asm.OR, x86asm.SBB, x86asm.SUB, x86asm.XOR,
		x86asm.DEC, x86asm.INC, x86asm.NEG, x86asm.NOT,
		x86asm.BTC, x86asm.BTR, x86asm.BTS,
		x86asm.RCL, x86asm.RCR, x86asm.ROL, x86asm.ROR, x86asm.SAR, x86asm.SHL, x86asm.SHR, x86asm.SHLD, x86asm.SHRD,
		x86asm.CMPXCHG, x86asm.CMPXCHG8B, x86asm.CMPXCHG16B, x86asm.XADD, x86asm.XCHG, x86asm.ARPL:
		return true
	}
	return false
}

// isPlainStore lists what writes its first operand without reading it, vector instructions with a VEX prefix left out.
func isPlainStore(op x86asm.Op) bool {
	switch op {
	case x86asm.MOV, x86asm.MOVBE, x86asm.MOVNTI, opMOVDIRI, x86asm.POP,
		x86asm.SETA, x86asm.SETAE, x86asm.SETB, x86asm.SETBE, x86asm.SETE, x86asm.SETG, x86asm.SETGE, x86asm.SETL,
		x86asm.SETLE, x86asm.SETNE, x86asm.SETNO, x86asm.SETNP, x86asm.SETNS, x86asm.SETO, x86asm.SETP, x86asm.SETS,
		x86asm.MOVSB, x86asm.MOVSW, x86asm.MOVSD, x86asm.MOVSQ,
		x86asm.STOSB, x86asm.STOSW, x86asm.STOSD, x86asm.STOSQ, x86asm.INSB, x86asm.INSW, x86asm.INSD,
		x86asm.MOVAPD, x86asm.MOVAPS, x86asm.MOVUPD, x86asm.MOVUPS, x86asm.MOVDQA, x86asm.MOVDQU,
		x86asm.MOVHPD, x86asm.MOVHPS, x86asm.MOVLPD, x86asm.MOVLPS, x86asm.MOVSD_XMM, x86asm.MOVSS,
		x86asm.MOVD, x86asm.MOVQ, x86asm.MOVNTDQ, x86asm.MOVNTPD, x86asm.MOVNTPS, x86asm.MOVNTQ,
		x86asm.MOVNTSD, x86asm.MOVNTSS, x86asm.EXTRACTPS,
		x86asm.PEXTRB, x86asm.PEXTRW, x86asm.PEXTRD, x86asm.PEXTRQ,
		x86asm.FST, x86asm.FSTP, x86asm.FIST, x86asm.FISTP, x86asm.FISTTP, x86asm.FBSTP,
		x86asm.FNSTCW, x86asm.FNSTSW, x86asm.FNSTENV, x86asm.FNSAVE, x86asm.STMXCSR,
		x86asm.FXSAVE, x86asm.FXSAVE64, x86asm.XSAVE, x86asm.XSAVE64, x86asm.XSAVEC, x86asm.XSAVEC64,
		x86asm.XSAVEOPT, x86asm.XSAVEOPT64, x86asm.XSAVES, x86asm.XSAVES64,
		x86asm.SGDT, x86asm.SIDT, x86asm.SLDT, x86asm.SMSW, x86asm.STR:
		return true
	}
	return false
}

// isLoad lists what only reads its first operand.
func isLoad(op x86asm.Op) bool {
	switch op {
	case x86asm.CMP, x86asm.TEST, x86asm.BT, x86asm.PUSH, x86asm.CALL, x86asm.LCALL, x86asm.JMP, x86asm.LJMP,
		x86asm.MUL, x86asm.IMUL, x86asm.DIV, x86asm.IDIV, x86asm.XLATB,
		x86asm.CMPSB, x86asm.CMPSW, x86asm.CMPSD, x86asm.CMPSQ,
		x86asm.FADD, x86asm.FSUB, x86asm.FSUBR, x86asm.FMUL, x86asm.FDIV, x86asm.FDIVR, x86asm.FCOM, x86asm.FCOMP,
		x86asm.FIADD, x86asm.FISUB, x86asm.FISUBR, x86asm.FIMUL, x86asm.FIDIV, x86asm.FIDIVR, x86asm.FICOM,
		x86asm.FICOMP, x86asm.FLD, x86asm.FILD, x86asm.FBLD, x86asm.FLDCW, x86asm.FLDENV, x86asm.FRSTOR,
		x86asm.FXRSTOR, x86asm.FXRSTOR64, x86asm.XRSTOR, x86asm.XRSTOR64, x86asm.XRSTORS, x86asm.XRSTORS64,
		x86asm.LDMXCSR, x86asm.VLDMXCSR, x86asm.LGDT, x86asm.LIDT, x86asm.LLDT, x86asm.LMSW, x86asm.LTR,
		x86asm.VERR, x86asm.VERW, x86asm.CLFLUSH, opCLFLUSHOPT, opCLWB:
		return true
	}
	return false
}

// isVectorStore tells the VEX and EVEX instructions that have a memory form with the memory operand first: of these all
// write it. They are told by name, since each comes in many widths.
func isVectorStore(op x86asm.Op) bool {
	if op < x86asm.ANDN || op > x86asm.VZEROUPPER {
		return false
	}
	name := op.String()
	for _, prefix := range [...]string{
		"VMOV", "VPMOV", "VEXTRACT", "VPEXTR", "VCOMPRESS", "VPCOMPRESS", "VCVTPS2PH", "VMASKMOV", "VPMASKMOV",
		"VSCATTER", "VPSCATTER", "VSTMXCSR", "KMOV",
	} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
