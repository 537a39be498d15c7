package perfabi

import (
	"encoding/binary"
	"math/bits"
)

// Bit numbers of registers in perf_event_attr.sample_regs_user and sample_regs_intr, enum perf_event_x86_regs
// (arch/x86/include/uapi/asm/perf_regs.h).
const (
	RegAX    = 0  // PERF_REG_X86_AX
	RegBX    = 1  // PERF_REG_X86_BX
	RegCX    = 2  // PERF_REG_X86_CX
	RegDX    = 3  // PERF_REG_X86_DX
	RegSI    = 4  // PERF_REG_X86_SI
	RegDI    = 5  // PERF_REG_X86_DI
	RegBP    = 6  // PERF_REG_X86_BP
	RegSP    = 7  // PERF_REG_X86_SP
	RegIP    = 8  // PERF_REG_X86_IP
	RegFlags = 9  // PERF_REG_X86_FLAGS
	RegCS    = 10 // PERF_REG_X86_CS
	RegSS    = 11 // PERF_REG_X86_SS
	RegDS    = 12 // PERF_REG_X86_DS
	RegES    = 13 // PERF_REG_X86_ES
	RegFS    = 14 // PERF_REG_X86_FS
	RegGS    = 15 // PERF_REG_X86_GS
	RegR8    = 16 // PERF_REG_X86_R8
	RegR9    = 17 // PERF_REG_X86_R9
	RegR10   = 18 // PERF_REG_X86_R10
	RegR11   = 19 // PERF_REG_X86_R11
	RegR12   = 20 // PERF_REG_X86_R12
	RegR13   = 21 // PERF_REG_X86_R13
	RegR14   = 22 // PERF_REG_X86_R14
	RegR15   = 23 // PERF_REG_X86_R15
)

// Masks for perf_event_attr.sample_regs_user and sample_regs_intr.
const (
	MaskGeneral = 0xff | 0xff<<RegR8 // the 16 general registers, in the order of GeneralNames
	MaskIP      = 1 << RegIP
)

// GeneralBytes is the size of the words of MaskGeneral.
const GeneralBytes = 16 * 8

// GeneralNames lists the registers of MaskGeneral in the order in which their words stand in a record.
func GeneralNames() []string {
	return []string{"rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp",
		"r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"}
}

// Words are u64 values as they stand in a record.
type Words []byte

// Len is the number of words.
func (w Words) Len() int { return len(w) / 8 }

// At is the word with index i, which must be below Len.
func (w Words) At(i int) uint64 { return binary.LittleEndian.Uint64(w[8*i:]) }

// Regs is one register set of a sample.
type Regs struct {
	ABI   uint64 // RegsABINone, RegsABI32 or RegsABI64
	Words Words  // one for each bit of the mask in ascending order; nil for RegsABINone
}

// Reg is the register with bit number reg of a set taken with mask, and whether it is there.
func (r Regs) Reg(mask uint64, reg uint) (uint64, bool) {
	bit := uint64(1) << reg
	i := bits.OnesCount64(mask & (bit - 1))
	if mask&bit == 0 || i >= r.Words.Len() {
		return 0, false
	}
	return r.Words.At(i), true
}

// General are the 16 general registers of a set taken with mask: all of them, or nil.
func (r Regs) General(mask uint64) Words {
	if mask != MaskGeneral || len(r.Words) != GeneralBytes {
		return nil
	}
	return r.Words
}
