//go:build amd64

package watch

import (
	"github.com/cilium/ebpf/asm"

	"xw/pkg/perfabi"
)

// ctxRegs returns the offsets of the general registers in the context of a BPF_PROG_TYPE_PERF_EVENT program, in the order of
// the bits of perfabi.MaskGeneral: ax bx cx dx si di bp sp r8 to r15.
func ctxRegs() []int16 {
	return []int16{80, 40, 88, 96, 104, 112, 32, 152, 72, 64, 56, 48, 24, 16, 8, 0}
}

// Offsets of what else is in the context, struct bpf_perf_event_data of linux/bpf_perf_event.h on x86-64: the registers at
// the hit (struct pt_regs), the sample period, the address.
const (
	ctxOrigAX = 120
	ctxIP     = 128
	ctxCS     = 136
	ctxAddr   = 176
)

// pageSize is the least that can be mapped, on x86-64.
const pageSize = 4096

// Of BPF ring buffers, linux/bpf.h and kernel/bpf/ringbuf.c.
const (
	ringNoWakeup    = 1 // BPF_RB_NO_WAKEUP
	ringForceWakeup = 2 // BPF_RB_FORCE_WAKEUP
	ringHeld        = 0 // BPF_RB_AVAIL_DATA
	ringProducer    = 3 // BPF_RB_PROD_POS
	ringHeader      = 8 // bytes before each record
	fenceSize       = 8 // the least that is aligned; see takeRoom
)

// Places on the program's stack.
const (
	stackKey     = -8
	stackWalk    = -16 // and the word below: of the walk of page tables
	stackFlags   = -32 // of the payload
	stackTask    = -40 // process and thread
	stackFence   = -48
	stackRing    = -56 // the CPU's
	stackSyscall = -64 // the code of a system call
	stackUpid    = -80 // upidSize
	stackCode    = stackUpid - 2*perfabi.HitCodeSize
)

// hitProgram is the program of one slot as it is put together. It runs in the trap of the hit: it looks whether the task has
// the target's memory and whether the session is live, takes room in the CPU's ring, gathers the record there, counts. It
// returns 0, which suppresses the watchpoint's own sample.
//
// R6 holds the context, R7 the counters of this CPU, R8 the task, R9 the record.
type hitProgram struct {
	*programs
	index int
	slot  Slot
	ins   asm.Instructions
}

// assemble writes the program of one slot.
func (p *programs) assemble(index int, s Slot) asm.Instructions {
	h := &hitProgram{programs: p, index: index, slot: s}
	h.filter()
	h.identify()
	h.tellLost()
	h.takeRoom()
	h.head()
	h.values()
	h.place()
	h.code()
	h.regs()
	if p.config.chain > 0 {
		h.putChained()
	} else {
		h.submit()
	}
	h.ends()
	return h.ins
}

func (h *hitProgram) add(i ...asm.Instruction) { h.ins = append(h.ins, i...) }

// stack loads a register with the address of a place on the stack.
func (h *hitProgram) stack(reg asm.Register, offset int32) {
	h.add(asm.Mov.Reg(reg, asm.RFP), asm.Add.Imm(reg, offset))
}

// bump adds one to a counter of this CPU.
func (h *hitProgram) bump(offset int) {
	h.add(asm.LoadMem(asm.R1, asm.R7, int16(offset), asm.DWord),
		asm.Add.Imm(asm.R1, 1),
		asm.StoreMem(asm.R7, int16(offset), asm.R1, asm.DWord))
}

// count adds one to a counter of the slot.
func (h *hitProgram) count(field int) { h.bump(h.index*tallySize + field) }

// lookup looks an element up whose index is on the stack; R0 is it, or the program goes on at missing.
func (h *hitProgram) lookup(mapFD int, missing string) {
	h.stack(asm.R2, stackKey)
	h.add(asm.LoadMapPtr(asm.R1, mapFD),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, missing))
}

// raw is where RAW begins while the record is gathered.
func (h *hitProgram) raw() int {
	if h.config.chain > 0 {
		return chainAt + h.config.chainSize()
	}
	return recRaw
}

// field is the place of a field of the payload in the record.
func (h *hitProgram) field(offset int) int16 { return int16(h.raw() + 4 + offset) }

// rawSize is the size of RAW, with the size that it begins with.
func (h *hitProgram) rawSize() int {
	if h.config.regs {
		return rawMax
	}
	return 4 + perfabi.HitSizeBare + recPadding
}

// flag sets a flag of the payload.
func (h *hitProgram) flag(flag int32) {
	h.add(asm.LoadMem(asm.R1, asm.RFP, stackFlags, asm.DWord),
		asm.Or.Imm(asm.R1, flag),
		asm.StoreMem(asm.RFP, stackFlags, asm.R1, asm.DWord))
}

// label names the next instruction.
func (h *hitProgram) label(name string) { h.add(asm.Mov.Imm(asm.R0, 0).WithSymbol(name)) }

// filter ends the program unless the hit is the session's.
func (h *hitProgram) filter() {
	h.add(asm.Mov.Reg(asm.R6, asm.R1),
		asm.StoreImm(asm.RFP, stackKey, 0, asm.Word))
	h.lookup(h.tallies.FD(), "out")
	h.add(asm.Mov.Reg(asm.R7, asm.R0),
		asm.FnGetCurrentTaskBtf.Call(),
		asm.Mov.Reg(asm.R8, asm.R0))
	h.add(asm.LoadMem(asm.R3, asm.R8, h.config.offsets.mm, asm.DWord),
		asm.LoadImm(asm.R2, int64(h.config.memory.mm), asm.DWord),
		asm.JNE.Reg(asm.R3, asm.R2, "foreign"),
		asm.LoadMapValue(asm.R1, h.gate.FD(), 0),
		asm.LoadMem(asm.R1, asm.R1, 0, asm.Word),
		asm.JNE.Imm(asm.R1, gateLive, "closed"))
	h.count(tallyHits)
}

// identify keeps the ids of process and thread in the pid namespace of xw-open.
func (h *hitProgram) identify() {
	if h.config.namespace.level == 0 {
		h.add(asm.FnGetCurrentPidTgid.Call(),
			asm.StoreMem(asm.RFP, stackTask+4, asm.R0, asm.Word),
			asm.RSh.Imm(asm.R0, 32),
			asm.StoreMem(asm.RFP, stackTask, asm.R0, asm.Word))
		return
	}
	h.numberOf(stackTask+4, "thread")
	h.add(asm.LoadMem(asm.R8, asm.R8, h.config.offsets.groupLeader, asm.DWord))
	h.numberOf(stackTask, "process")
	h.add(asm.FnGetCurrentTaskBtf.Call(),
		asm.Mov.Reg(asm.R8, asm.R0))
}

// numberOf stores the id of the task in R8; 0 if it has none in the namespace, as task_pid_nr_ns of kernel/pid.c tells it.
func (h *hitProgram) numberOf(place int16, name string) {
	o, ns := h.config.offsets, h.config.namespace
	h.add(asm.StoreImm(asm.RFP, place, 0, asm.Word),
		asm.LoadMem(asm.R3, asm.R8, o.threadPID, asm.DWord),
		asm.Add.Imm(asm.R3, int32(o.numbers)+upidSize*int32(ns.level)))
	h.stack(asm.R1, stackUpid)
	h.add(asm.Mov.Imm(asm.R2, upidSize),
		asm.FnProbeReadKernel.Call(),
		asm.LoadMem(asm.R1, asm.RFP, stackUpid+o.ns, asm.DWord),
		asm.LoadImm(asm.R2, int64(ns.addr), asm.DWord),
		asm.JNE.Reg(asm.R1, asm.R2, name),
		asm.LoadMem(asm.R1, asm.RFP, stackUpid+o.nr, asm.Word),
		asm.StoreMem(asm.RFP, place, asm.R1, asm.Word))
	h.label(name)
}

// tellLost writes how many hits found no room since that was last told, where this one finds some, too, as the kernel does
// (perf_output_begin, kernel/events/ring_buffer.c).
func (h *hitProgram) tellLost() {
	h.add(asm.FnGetSmpProcessorId.Call(),
		asm.StoreMem(asm.RFP, stackKey, asm.R0, asm.Word))
	h.lookup(h.rings.FD(), "failed")
	h.add(asm.StoreMem(asm.RFP, stackRing, asm.R0, asm.DWord),
		asm.LoadMem(asm.R1, asm.R7, countersUntold, asm.DWord),
		asm.JEq.Imm(asm.R1, 0, "all told"),
		asm.Mov.Reg(asm.R1, asm.R0),
		asm.Mov.Imm(asm.R2, ringHeld),
		asm.FnRingbufQuery.Call(),
		asm.JGT.Imm(asm.R0, int32(h.config.ringSize)-h.largest(), "failed"))
	h.reserve(lostSize)
	h.add(asm.Mov.Reg(asm.R9, asm.R0),
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.R9, lostTime, asm.R0, asm.DWord),
		asm.StoreImm(asm.R9, recType, perfabi.RecordLost, asm.Word),
		asm.StoreImm(asm.R9, recMisc, lostSize<<16, asm.Word),
		asm.LoadImm(asm.R1, -hitID, asm.DWord),
		asm.StoreMem(asm.R9, lostID, asm.R1, asm.DWord),
		asm.StoreMem(asm.R9, lostIdentifier, asm.R1, asm.DWord),
		asm.LoadMem(asm.R1, asm.R7, countersUntold, asm.DWord),
		asm.StoreMem(asm.R9, lostN, asm.R1, asm.DWord),
		asm.LoadMem(asm.R1, asm.RFP, stackTask, asm.DWord),
		asm.StoreMem(asm.R9, lostTask, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.R7, countersUntold, asm.R1, asm.DWord),
		asm.Mov.Reg(asm.R1, asm.R9),
		asm.Mov.Imm(asm.R2, ringNoWakeup),
		asm.FnRingbufSubmit.Call())
	h.label("all told")
}

// largest is how much a hit takes of the ring at the most, with the record of a loss before it.
func (h *hitProgram) largest() int32 {
	size := ringHeader + lostSize + ringHeader + recRaw + h.rawSize()
	if h.config.chain > 0 {
		size += ringHeader + fenceSize + h.raw() - recRaw
	}
	return int32(size)
}

// reserve takes room in the ring; R0 is it.
func (h *hitProgram) reserve(size int) {
	h.add(asm.LoadMem(asm.R1, asm.RFP, stackRing, asm.DWord),
		asm.Mov.Imm(asm.R2, int32(size)),
		asm.Mov.Imm(asm.R3, 0),
		asm.FnRingbufReserve.Call(),
		asm.JEq.Imm(asm.R0, 0, "failed"))
}

// takeRoom finds the place where the record is gathered. From the moment that its time is read until it is submitted the ring
// holds something unsubmitted before it, so that a reader who drains the ring meanwhile sees that it is not empty. For a record
// with a chain, whose own room is taken at the end, that is a record of no use, which is discarded then.
func (h *hitProgram) takeRoom() {
	if h.config.chain > 0 {
		h.reserve(fenceSize)
		h.add(asm.StoreMem(asm.RFP, stackFence, asm.R0, asm.DWord),
			asm.StoreImm(asm.RFP, stackKey, 0, asm.Word))
		h.lookup(h.scratch.FD(), "unfenced")
	} else {
		h.reserve(recRaw + h.rawSize())
	}
	h.add(asm.Mov.Reg(asm.R9, asm.R0),
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.R9, recTime, asm.R0, asm.DWord))
}

// head writes what stands before the payload, and those of its fields that may stay as they are. What is not read goes out
// too, and may not be what an earlier hit has left.
func (h *hitProgram) head() {
	h.add(asm.StoreImm(asm.R9, recType, perfabi.RecordSample, asm.Word),
		asm.StoreImm(asm.R9, recMisc, perfabi.MiscUser, asm.Half),
		asm.StoreImm(asm.R9, recSize, int64(recRaw+h.rawSize()), asm.Half),
		asm.LoadImm(asm.R1, -hitID, asm.DWord),
		asm.StoreMem(asm.R9, recID, asm.R1, asm.DWord),
		asm.LoadMem(asm.R1, asm.R6, ctxIP, asm.DWord),
		asm.StoreMem(asm.R9, recIP, asm.R1, asm.DWord),
		asm.LoadMem(asm.R1, asm.RFP, stackTask, asm.DWord),
		asm.StoreMem(asm.R9, recTask, asm.R1, asm.DWord),
		asm.StoreImm(asm.R9, int16(h.raw()), int64(h.rawSize()-4), asm.Word),
		asm.StoreImm(asm.R9, int16(h.raw()+h.rawSize()-recPadding), 0, asm.Word),
		asm.StoreImm(asm.R9, h.field(perfabi.HitSlotOff), int64(h.index), asm.Word),
		asm.LoadMem(asm.R1, asm.R6, ctxAddr, asm.DWord),
		asm.StoreMem(asm.R9, h.field(perfabi.HitAddrOff), asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R2, 0),
		asm.StoreMem(asm.RFP, stackFlags, asm.R2, asm.DWord))
	for _, off := range []int{perfabi.HitValueOff, perfabi.HitUserIPOff, perfabi.HitSyscallOff, perfabi.HitChildOff, perfabi.HitCodeAtOff} {
		h.add(asm.StoreMem(asm.R9, h.field(off), asm.R2, asm.DWord))
	}
}

// values takes the bytes that were hit; of a pointer, also those where it leads now, for the time until the slot below is
// armed there.
func (h *hitProgram) values() {
	if h.slot.Access != "x" {
		h.add(asm.LoadMem(asm.R1, asm.R6, ctxAddr, asm.DWord))
		h.copyBytes(h.slot, perfabi.HitValueOff, perfabi.HitValueValid, "no value")
	}
	if h.slot.Child != nil {
		h.add(asm.LoadMem(asm.R1, asm.RFP, stackFlags, asm.DWord),
			asm.And.Imm(asm.R1, perfabi.HitValueValid),
			asm.JEq.Imm(asm.R1, 0, "no child"),
			asm.LoadMem(asm.R1, asm.R9, h.field(perfabi.HitValueOff), asm.DWord),
			asm.JEq.Imm(asm.R1, 0, "no child"),
			asm.LoadImm(asm.R2, h.slot.Child.Offset, asm.DWord),
			asm.Add.Reg(asm.R1, asm.R2))
		h.copyBytes(Slot{Len: h.slot.Child.Len, Access: h.slot.Child.Access}, perfabi.HitChildOff, perfabi.HitChildValid, "no child")
	}
}

// copyBytes copies the bytes of a slot at the user address in R1 into the payload and sets flag. done is the label behind
// that. A read of bytes that an rw watchpoint is on would be a hit of its own: then they are read through the direct map, or
// not at all.
func (h *hitProgram) copyBytes(s Slot, offset int, flag int32, done string) {
	at, n := h.field(offset), int32(s.Len)
	switch {
	case h.config.directMap != nil:
		h.add(h.config.directMap.read(asm.R1, h.config.memory.pgd, asm.R9, int(at), int(n), stackWalk, done)...)
		h.flag(flag)
	case !h.config.readsHit:
		h.add(asm.Mov.Reg(asm.R3, asm.R1),
			asm.Mov.Reg(asm.R1, asm.R9),
			asm.Add.Imm(asm.R1, int32(at)),
			asm.Mov.Imm(asm.R2, n),
			asm.FnProbeReadUser.Call(),
			asm.JNE.Imm(asm.R0, 0, done))
		h.flag(flag)
	}
	h.label(done)
}

// place takes the name of the thread, and for a hit made by the kernel where the process was, and in which system call.
func (h *hitProgram) place() {
	// The kernel keeps the name padded with NULs (__set_task_comm), and two loads cost less than bpf_get_current_comm.
	for off := 0; off < perfabi.HitCommSize; off += 8 {
		h.add(asm.LoadMem(asm.R1, asm.R8, h.config.offsets.comm+int16(off), asm.DWord),
			asm.StoreMem(asm.R9, h.field(perfabi.HitCommOff+off), asm.R1, asm.DWord))
	}
	h.add(asm.LoadMem(asm.R1, asm.R6, ctxCS, asm.DWord),
		asm.And.Imm(asm.R1, 3),
		asm.JNE.Imm(asm.R1, 0, "user"))

	// orig_ax is a system call's number only when the process came in by an instruction that makes one, which the bytes
	// before its ip tell. In a 64-bit process the other ones give numbers of the 32-bit calls (arch/x86/entry/entry_64_compat.S),
	// as which they would be told wrongly.
	h.add(asm.StoreImm(asm.R9, recMisc, perfabi.MiscKernel, asm.Half))
	h.flag(perfabi.HitKernel)
	h.add(asm.Mov.Reg(asm.R1, asm.R8),
		asm.FnTaskPtRegs.Call(),
		asm.LoadMem(asm.R3, asm.R0, ctxIP, asm.DWord),
		asm.LoadMem(asm.R2, asm.R0, ctxOrigAX, asm.DWord),
		asm.JEq.Imm(asm.R3, 0, "no code"),
		asm.StoreMem(asm.R9, h.field(perfabi.HitUserIPOff), asm.R3, asm.DWord),
		asm.StoreMem(asm.R9, h.field(perfabi.HitSyscallOff), asm.R2, asm.DWord))
	h.flag(perfabi.HitUserContext)
	h.leaveWatched("no code")
	h.add(asm.Sub.Imm(asm.R3, 2),
		asm.StoreImm(asm.RFP, stackSyscall, 0, asm.Word))
	h.stack(asm.R1, stackSyscall)
	h.add(asm.Mov.Imm(asm.R2, 2),
		asm.FnProbeReadUser.Call(),
		asm.LoadMem(asm.R1, asm.RFP, stackSyscall, asm.Half),
		asm.JEq.Imm(asm.R1, 0x050f, "syscall")) // syscall
	if h.config.bits == 32 {
		h.add(asm.JEq.Imm(asm.R1, 0x80cd, "syscall"), // int $0x80
			asm.JEq.Imm(asm.R1, 0x340f, "syscall")) // sysenter
	}
	h.add(asm.Ja.Label("no code"))
	h.label("syscall")
	h.flag(perfabi.HitInSyscall)
	h.add(asm.Ja.Label("no code"))
}

// regs takes the registers, and ends the payload.
func (h *hitProgram) regs() {
	h.label("registers")
	if h.config.regs {
		for i, offset := range ctxRegs() {
			h.add(asm.LoadMem(asm.R1, asm.R6, offset, asm.DWord),
				asm.StoreMem(asm.R9, h.field(perfabi.HitRegsOff+8*i), asm.R1, asm.DWord))
		}
		h.flag(perfabi.HitRegsValid)
	}
	h.add(asm.LoadMem(asm.R1, asm.RFP, stackFlags, asm.DWord),
		asm.StoreMem(asm.R9, h.field(perfabi.HitFlagsOff), asm.R1, asm.Word))
}

// watermark is how many bytes come from one wake-up of the reader to the next.
func (h *hitProgram) watermark() int32 { return int32(h.config.ringSize / watermarkShare) }

// submit makes the record one of the ring's.
func (h *hitProgram) submit() {
	h.add(asm.Mov.Imm(asm.R2, ringForceWakeup))
	if !h.slot.Wake {
		// The reader is woken by the record that passed a multiple of the watermark, a lost record before it included.
		h.add(asm.LoadMem(asm.R1, asm.RFP, stackRing, asm.DWord),
			asm.Mov.Imm(asm.R2, ringProducer),
			asm.FnRingbufQuery.Call(),
			asm.And.Imm(asm.R0, h.watermark()-1),
			asm.Mov.Imm(asm.R2, ringForceWakeup),
			asm.JLT.Imm(asm.R0, h.largest(), "submit"),
			asm.Mov.Imm(asm.R2, ringNoWakeup))
	}
	h.add(asm.Mov.Reg(asm.R1, asm.R9).WithSymbol("submit"),
		asm.FnRingbufSubmit.Call())
	h.count(tallyEmitted)
	h.add(asm.Ja.Label("out"))
}

// ends counts the other ways that a hit may go.
func (h *hitProgram) ends() {
	h.label("failed")
	h.count(tallyFailed)
	h.bump(countersUntold)
	h.add(asm.Ja.Label("out"))
	h.label("foreign")
	h.count(tallyForeign)
	h.add(asm.Ja.Label("out"),
		asm.JNE.Imm(asm.R1, gateStopped, "early").WithSymbol("closed"))
	h.count(tallyStopped)
	h.add(asm.Ja.Label("out"))
	h.label("early")
	h.count(tallyEarly)
	h.add(asm.Mov.Imm(asm.R0, 0).WithSymbol("out"), asm.Return())
}
