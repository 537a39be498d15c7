//go:build amd64

package watch

import (
	"os"
	"strconv"
	"strings"

	"github.com/cilium/ebpf/asm"

	"xw/pkg/perfabi"
)

// A record with a call chain is put together in memory of the program's own, since a ring has room only for records whose size
// is known when the program is loaded. There RAW lies behind the longest chain, until its length is known.
const (
	chainAt = recChain + 8 + 8 // the number of words, PERF_CONTEXT_USER, the chain
	rawMax  = 4 + perfabi.HitSize + recPadding
)

// maxChain is how many addresses of callers the kernel takes: those that it has room for, by sysctl kernel.perf_event_max_stack,
// but no more than can be reached by the offset in an instruction.
func maxChain() int {
	const usual, most = 127, 2048
	b, err := os.ReadFile("/proc/sys/kernel/perf_event_max_stack")
	if err != nil {
		return usual // before Linux 4.7, or out of sight
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return usual
	}
	return max(1, min(n, most))
}

// chainSize is the room for the longest chain, in bytes.
func (c programConfig) chainSize() int { return 8 * c.chain }

// chainedSize is the size of the longest record with a chain, in bytes.
func (c programConfig) chainedSize() int { return chainAt + c.chainSize() + rawMax }

// putChained takes the call chain of the process, as the kernel's own samples without that of the kernel have it, and copies
// the record to the ring.
func (h *hitProgram) putChained() {
	const userStack = 1 << 8 // BPF_F_USER_STACK
	h.add(asm.Mov.Reg(asm.R1, asm.R6),
		asm.Mov.Reg(asm.R2, asm.R9),
		asm.Add.Imm(asm.R2, chainAt),
		asm.Mov.Imm(asm.R3, int32(h.config.chainSize())),
		asm.Mov.Imm(asm.R4, userStack),
		asm.FnGetStack.Call(),
		asm.JSGE.Imm(asm.R0, 0, "chain"),
		asm.Mov.Imm(asm.R0, 0),
		asm.Mov.Reg(asm.R8, asm.R0).WithSymbol("chain"),
		asm.Mov.Reg(asm.R1, asm.R8),
		asm.RSh.Imm(asm.R1, 3),
		asm.Add.Imm(asm.R1, 1),
		asm.StoreMem(asm.R9, recChain, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R1, perfabi.ContextUser-1<<64), // sign-extended
		asm.StoreMem(asm.R9, recChain+8, asm.R1, asm.DWord),
		asm.Mov.Reg(asm.R1, asm.R9),
		asm.Add.Imm(asm.R1, chainAt),
		asm.Add.Reg(asm.R1, asm.R8),
		asm.Mov.Imm(asm.R2, int32(h.rawSize())),
		asm.Mov.Reg(asm.R3, asm.R9),
		asm.Add.Imm(asm.R3, int32(h.raw())),
		asm.FnProbeReadKernel.Call(),
		asm.Add.Imm(asm.R8, int32(chainAt+h.rawSize())), // the record's size
		asm.StoreMem(asm.R9, recSize, asm.R8, asm.Half),
		asm.Mov.Imm(asm.R4, ringForceWakeup))
	if !h.slot.Wake {
		h.add(asm.LoadMem(asm.R1, asm.RFP, stackRing, asm.DWord),
			asm.Mov.Imm(asm.R2, ringProducer),
			asm.FnRingbufQuery.Call(),
			asm.And.Imm(asm.R0, h.watermark()-1),
			asm.Add.Reg(asm.R0, asm.R8),
			asm.Mov.Imm(asm.R4, ringForceWakeup),
			asm.JGE.Imm(asm.R0, h.watermark()-ringHeader-lostSize-ringHeader-fenceSize-ringHeader, "put"),
			asm.Mov.Imm(asm.R4, ringNoWakeup))
	}
	h.add(asm.LoadMem(asm.R1, asm.RFP, stackRing, asm.DWord).WithSymbol("put"),
		asm.Mov.Reg(asm.R2, asm.R9),
		asm.Mov.Reg(asm.R3, asm.R8),
		asm.FnRingbufOutput.Call(),
		asm.Mov.Reg(asm.R8, asm.R0),
		asm.Ja.Label("unfence"))
	h.unfence()
	h.count(tallyEmitted)
	h.add(asm.Ja.Label("out"))
}

// unfence discards the record of no use; R8 is not 0 where the hit found no room.
func (h *hitProgram) unfence() {
	h.add(asm.Mov.Imm(asm.R8, 1).WithSymbol("unfenced"),
		asm.LoadMem(asm.R1, asm.RFP, stackFence, asm.DWord).WithSymbol("unfence"),
		asm.Mov.Imm(asm.R2, ringNoWakeup),
		asm.FnRingbufDiscard.Call(),
		asm.JNE.Imm(asm.R8, 0, "failed"))
}
