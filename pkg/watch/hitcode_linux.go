//go:build amd64

package watch

import (
	"github.com/cilium/ebpf/asm"

	"xw/pkg/perfabi"
)

// code takes the code around ip. A read that fails leaves zeros.
func (h *hitProgram) code() {
	const size = perfabi.HitCodeSize
	at := int32(h.field(perfabi.HitCodeOff))
	h.add(asm.LoadMem(asm.R3, asm.R6, ctxIP, asm.DWord).WithSymbol("user"))
	h.leaveWatched("no code")
	h.add(asm.Sub.Imm(asm.R3, perfabi.HitCodeBack),
		asm.Mov.Reg(asm.R1, asm.R9),
		asm.Add.Imm(asm.R1, at),
		asm.Mov.Imm(asm.R2, size),
		asm.FnProbeReadUser.Call(),
		asm.JNE.Imm(asm.R0, 0, "not all code"),
		asm.StoreImm(asm.R9, h.field(perfabi.HitCodeLenOff), size, asm.Word),
		asm.Ja.Label("registers"))
	h.codeOfOnePage(at)
	h.add(asm.Mov.Imm(asm.R2, 0).WithSymbol("no code"))
	for off := 0; off < size; off += 8 {
		h.add(asm.StoreMem(asm.R9, int16(at)+int16(off), asm.R2, asm.DWord))
	}
}

// leaveWatched leaves out the code around the ip in R3, and goes on at left, where some of it is watched for reads: to read it would
// be a hit, which is nobody's.
func (h *hitProgram) leaveWatched(left string) {
	if !h.config.readsHit {
		return
	}
	h.add(asm.LoadMapValue(asm.R2, h.aims.FD(), 0))
	for i := range int16(aimsLen) {
		h.add(asm.LoadMem(asm.R1, asm.R2, 8*i, asm.DWord),
			asm.Sub.Reg(asm.R1, asm.R3),
			asm.Add.Imm(asm.R1, perfabi.HitCodeBack+8),
			asm.JLE.Imm(asm.R1, perfabi.HitCodeSize+8, left))
	}
}

// codeOfOnePage takes the code around ip where it lies in two pages of which only one can be read, as where a compiler has put
// the first code into a new mapping. It is gathered on the stack, with as much room behind it: the verifier does not see that
// what the first page has is what the second has not.
func (h *hitProgram) codeOfOnePage(at int32) {
	const size = perfabi.HitCodeSize
	// beginning loads R3 with the address of the code, R8 with how much of it lies before the end of its page, R1 with where
	// it goes.
	beginning := func() {
		h.add(asm.LoadMem(asm.R3, asm.R6, ctxIP, asm.DWord),
			asm.Sub.Imm(asm.R3, perfabi.HitCodeBack),
			asm.Mov.Imm(asm.R8, pageSize),
			asm.Mov.Reg(asm.R1, asm.R3),
			asm.And.Imm(asm.R1, pageSize-1),
			asm.Sub.Reg(asm.R8, asm.R1),
			asm.JGE.Imm(asm.R8, size, "registers")) // all in one page
		h.stack(asm.R1, stackCode)
	}
	tell := func(from, n asm.Register) {
		h.add(asm.StoreMem(asm.R9, h.field(perfabi.HitCodeAtOff), from, asm.Word),
			asm.StoreMem(asm.R9, h.field(perfabi.HitCodeLenOff), n, asm.Word))
	}
	h.add(asm.Mov.Imm(asm.R2, 0).WithSymbol("not all code"))
	for off := range int16(2 * size / 8) {
		h.add(asm.StoreMem(asm.RFP, stackCode+8*off, asm.R2, asm.DWord))
	}
	beginning()
	h.add(asm.Add.Reg(asm.R3, asm.R8),
		asm.Add.Reg(asm.R1, asm.R8),
		asm.Mov.Imm(asm.R2, size),
		asm.Sub.Reg(asm.R2, asm.R8),
		asm.FnProbeReadUser.Call(),
		asm.JNE.Imm(asm.R0, 0, "first page"),
		asm.Mov.Imm(asm.R2, size),
		asm.Sub.Reg(asm.R2, asm.R8))
	tell(asm.R8, asm.R2)
	h.add(asm.Ja.Label("part of the code"))

	h.label("first page")
	beginning()
	h.add(asm.Mov.Reg(asm.R2, asm.R8),
		asm.FnProbeReadUser.Call(),
		asm.JNE.Imm(asm.R0, 0, "registers"),
		asm.Mov.Imm(asm.R1, 0))
	tell(asm.R1, asm.R8)

	h.label("part of the code")
	h.add(asm.Mov.Reg(asm.R1, asm.R9), asm.Add.Imm(asm.R1, at), asm.Mov.Imm(asm.R2, size))
	h.stack(asm.R3, stackCode)
	h.add(asm.FnProbeReadKernel.Call(), asm.Ja.Label("registers"))
}
