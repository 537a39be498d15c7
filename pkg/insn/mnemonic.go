package insn

import (
	"strings"

	"golang.org/x/arch/x86/x86asm"
)

// mnemonic is the instruction's name and the operands that are written with it.
func (in *instr) mnemonic() (name string, args []x86asm.Arg) {
	args = in.Args[:]
	for i, arg := range args {
		if arg == nil {
			args = args[:i]
			break
		}
	}
	if name := in.predicated(args); name != "" {
		return name, args[:len(args)-1]
	}
	switch in.Op {
	case x86asm.MOVSB, x86asm.MOVSW, x86asm.MOVSD, x86asm.MOVSQ, x86asm.MOVSD_XMM:
		if in.Op == x86asm.MOVSD_XMM {
			return "movsd", args
		}
		return "movs", args
	case x86asm.CMPSB, x86asm.CMPSW, x86asm.CMPSD, x86asm.CMPSQ:
		return "cmps", args
	case x86asm.STOSB, x86asm.STOSW, x86asm.STOSD, x86asm.STOSQ:
		return "stos", args
	case x86asm.LODSB, x86asm.LODSW, x86asm.LODSD, x86asm.LODSQ:
		return "lods", args
	case x86asm.SCASB, x86asm.SCASW, x86asm.SCASD, x86asm.SCASQ:
		return "scas", args
	case x86asm.INSB, x86asm.INSW, x86asm.INSD:
		return "ins", args
	case x86asm.OUTSB, x86asm.OUTSW, x86asm.OUTSD:
		return "outs", args
	case x86asm.XLATB:
		return "xlat", args
	case x86asm.LCALL:
		return "call", args
	case x86asm.LJMP:
		return "jmp", args
	case x86asm.LRET:
		return "retf", args
	case x86asm.PUSHFQ, x86asm.PUSHFD:
		return "pushf", args
	case x86asm.POPFQ, x86asm.POPFD:
		return "popf", args
	case x86asm.PUSHAD:
		return "pusha", args
	case x86asm.POPAD:
		return "popa", args
	case x86asm.CMPSD_XMM:
		return "cmpsd", args
	case x86asm.VPEXTRW_C5:
		return "vpextrw", args
	case x86asm.MOV:
		if in.isWideMove() {
			return "movabs", args
		}
	case x86asm.IRETD, x86asm.IRETQ:
		return "iret", args
	case x86asm.ICEBP:
		return "int1", args
	case x86asm.INT:
		if in.bytes[in.pre.opcode] == 0xcc {
			return "int3", nil
		}
	}
	if name := shapeName(in.Op); name != "" {
		return name, args
	}
	return strings.ToLower(in.Op.String()), args
}

// isWideMove tells the moves with a 64-bit immediate or a 64-bit address in the instruction.
func (in *instr) isWideMove() bool {
	opcode := in.bytes[in.pre.opcode]
	switch {
	case in.pre.escape != 0 || in.bits != 64:
		return false
	case 0xb8 <= opcode && opcode <= 0xbf:
		return in.pre.w
	}
	return 0xa0 <= opcode && opcode <= 0xa3 && !in.pre.addrSize
}

// predicates are the names of the conditions of vector compares by their number: the first eight also without VEX.
var predicates = [...]string{"eq", "lt", "le", "unord", "neq", "nlt", "nle", "ord", "eq_uq", "nge", "ngt", "false",
	"neq_oq", "ge", "gt", "true", "eq_os", "lt_oq", "le_oq", "unord_s", "neq_us", "nlt_uq", "nle_uq", "ord_s", "eq_us",
	"nge_uq", "ngt_uq", "false_os", "neq_os", "ge_oq", "gt_oq", "true_us"}

// predicated is the name of a compare or a carry-less multiplication that has its last operand in its name, or "".
func (in *instr) predicated(args []x86asm.Arg) string {
	if len(args) == 0 {
		return ""
	}
	imm, ok := args[len(args)-1].(x86asm.Imm)
	if !ok || imm < 0 || imm > 31 {
		return ""
	}
	switch in.Op {
	case x86asm.CMPPD, x86asm.CMPPS, x86asm.CMPSD_XMM, x86asm.CMPSS:
		if imm < 8 {
			name := strings.ToLower(in.Op.String())
			return "cmp" + predicates[imm] + name[3:5]
		}
	case x86asm.VCMPPD, x86asm.VCMPPS, x86asm.VCMPSD, x86asm.VCMPSS:
		name := strings.ToLower(in.Op.String())
		return "vcmp" + predicates[imm] + name[4:]
	case x86asm.VPCMPB, x86asm.VPCMPW, x86asm.VPCMPD, x86asm.VPCMPQ,
		x86asm.VPCMPUB, x86asm.VPCMPUW, x86asm.VPCMPUD, x86asm.VPCMPUQ:
		if imm < 7 && imm != 3 {
			return "vpcmp" + predicates[imm] + strings.ToLower(in.Op.String())[5:]
		}
	case x86asm.PCLMULQDQ, x86asm.VPCLMULQDQ:
		prefix := strings.ToLower(strings.TrimSuffix(in.Op.String(), "QDQ"))
		switch imm {
		case 0x00:
			return prefix + "lqlqdq"
		case 0x01:
			return prefix + "hqlqdq"
		case 0x10:
			return prefix + "lqhqdq"
		case 0x11:
			return prefix + "hqhqdq"
		}
	}
	return ""
}
