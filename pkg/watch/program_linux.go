//go:build amd64

package watch

import (
	"fmt"
	"runtime"

	"github.com/cilium/ebpf"
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

// States of the gate that every program looks at before it counts a hit as the session's.
const (
	gateLive    = 0
	gateStopped = 1
	gateArming  = 2
)

// tally is what one program has counted on one CPU; the order is the program's.
type tally struct {
	Hits    uint64 // runs for the target while the gate was live
	Emitted uint64 // of those, records that the ring took
	Failed  uint64 // of those, records that the ring had no room for
	Foreign uint64 // runs for a task with another memory
	Stopped uint64 // runs for the target after the gate was closed
	Early   uint64 // runs for the target before it was opened
}

// Offsets of the fields of tally.
const (
	tallyHits    = 0
	tallyEmitted = 8
	tallyFailed  = 16
	tallyForeign = 24
	tallyStopped = 32
	tallyEarly   = 40
	tallySize    = 48
)

// programs are the BPF programs of one session, one per slot, and the maps they share.
type programs struct {
	config  programConfig
	slots   []*ebpf.Program
	tallies *ebpf.Map // per-CPU array: slot index to tally
	gate    *ebpf.Map // array of one u32
	quiet   *ebpf.Map // CPU to the output event that wakes the reader at a watermark
	wake    *ebpf.Map // CPU to the output event that wakes it at once
}

// programConfig is what the programs of a session have in common.
type programConfig struct {
	memory    memory     // the target's; compared in the program and never emitted
	offsets   offsets    // in the kernel's structures
	readsHit  bool       // some slot is an rw watchpoint
	regs      bool       // the general registers are taken
	directMap *directMap // nil where it was not found or nobody needs it
	cpus      int        // one more than the highest CPU number
}

// newPrograms creates the maps that the programs of a session share.
func newPrograms(c programConfig) (_ *programs, err error) {
	p := &programs{config: c}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	maps := []struct {
		dst  **ebpf.Map
		spec ebpf.MapSpec
	}{
		{&p.tallies, ebpf.MapSpec{Name: "xw_tallies", Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: tallySize, MaxEntries: MaxSlots}},
		{&p.gate, ebpf.MapSpec{Name: "xw_gate", Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1}},
		{&p.quiet, ebpf.MapSpec{Name: "xw_quiet", Type: ebpf.PerfEventArray, KeySize: 4, ValueSize: 4, MaxEntries: uint32(c.cpus)}},
		{&p.wake, ebpf.MapSpec{Name: "xw_wake", Type: ebpf.PerfEventArray, KeySize: 4, ValueSize: 4, MaxEntries: uint32(c.cpus)}},
	}
	for _, m := range maps {
		if *m.dst, err = ebpf.NewMap(&m.spec); err != nil {
			return nil, fmt.Errorf("create BPF map %s: %w", m.spec.Name, err)
		}
	}
	return p, p.setGate(gateArming)
}

// load assembles and loads the program of the next slot.
func (p *programs) load(s Slot) error {
	i := len(p.slots)
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "xw_hit", Type: ebpf.PerfEvent, License: "GPL", Instructions: p.assemble(i, s),
	})
	if err != nil {
		return fmt.Errorf("load BPF program of slot %d: %w", i, err)
	}
	p.slots = append(p.slots, prog)
	return nil
}

// pageSize is the least that can be mapped, on x86-64.
const pageSize = 4096

// Places on the program's stack.
const (
	stackHit  = -perfabi.HitSize // the payload
	stackMM   = stackHit - 8
	stackKey  = stackHit - 16
	stackCode = stackHit - 24
)

// assemble writes the program of one slot. It runs in the trap of the hit: it looks whether the task has the target's
// memory and whether the session is live, gathers the payload on its stack, emits it with the registers, counts.
// It returns 0, which suppresses the watchpoint's own sample.
//
// R6 holds the context, R7 the tally, R8 the task, R9 the payload's flags.
func (p *programs) assemble(index int, s Slot) asm.Instructions {
	output := p.quiet
	if s.Wake {
		output = p.wake
	}
	var ins asm.Instructions
	add := func(i ...asm.Instruction) { ins = append(ins, i...) }
	bump := func(offset int16) {
		add(asm.LoadMem(asm.R1, asm.R7, offset, asm.DWord),
			asm.Add.Imm(asm.R1, 1),
			asm.StoreMem(asm.R7, offset, asm.R1, asm.DWord))
	}
	field := func(offset int) int16 { return int16(stackHit + offset) }
	stackAddr := func(reg asm.Register, offset int) {
		add(asm.Mov.Reg(reg, asm.RFP), asm.Add.Imm(reg, int32(offset)))
	}
	add(asm.Mov.Reg(asm.R6, asm.R1),
		asm.StoreImm(asm.RFP, stackKey, int64(index), asm.Word))
	stackAddr(asm.R2, stackKey)
	add(asm.LoadMapPtr(asm.R1, p.tallies.FD()),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
		asm.Mov.Reg(asm.R7, asm.R0),
		asm.FnGetCurrentTaskBtf.Call(),
		asm.Mov.Reg(asm.R8, asm.R0),
		asm.Mov.Reg(asm.R3, asm.R0),
		asm.Add.Imm(asm.R3, p.config.offsets.mm))
	stackAddr(asm.R1, stackMM)
	add(asm.Mov.Imm(asm.R2, 8),
		asm.FnProbeReadKernel.Call(),
		asm.LoadMem(asm.R1, asm.RFP, stackMM, asm.DWord),
		asm.LoadImm(asm.R2, int64(p.config.memory.mm), asm.DWord),
		asm.JNE.Reg(asm.R1, asm.R2, "foreign"),
		asm.LoadMapValue(asm.R1, p.gate.FD(), 0),
		asm.LoadMem(asm.R1, asm.R1, 0, asm.Word),
		asm.JNE.Imm(asm.R1, gateLive, "closed"))
	bump(tallyHits)

	add(asm.Mov.Imm(asm.R9, 0))
	for off := 0; off < perfabi.HitSizeBare; off += 8 { // what is not read goes out too
		add(asm.StoreMem(asm.RFP, field(off), asm.R9, asm.DWord))
	}
	add(asm.StoreImm(asm.RFP, field(perfabi.HitSlotOff), int64(index), asm.Word),
		asm.LoadMem(asm.R1, asm.R6, ctxAddr, asm.DWord),
		asm.StoreMem(asm.RFP, field(perfabi.HitAddrOff), asm.R1, asm.DWord))

	if s.Access != "x" {
		add(p.copyBytes(asm.R1, s, perfabi.HitValueOff, perfabi.HitValueValid, "no value")...)
	}
	if s.Child != nil {
		// The bytes where the pointer leads now, for the time until the slot below is armed there.
		add(asm.Mov.Reg(asm.R1, asm.R9),
			asm.And.Imm(asm.R1, perfabi.HitValueValid),
			asm.JEq.Imm(asm.R1, 0, "no child"),
			asm.LoadMem(asm.R1, asm.RFP, field(perfabi.HitValueOff), asm.DWord),
			asm.JEq.Imm(asm.R1, 0, "no child"),
			asm.LoadImm(asm.R2, s.Child.Offset, asm.DWord),
			asm.Add.Reg(asm.R1, asm.R2))
		child := Slot{Len: s.Child.Len, Access: s.Child.Access}
		add(p.copyBytes(asm.R1, child, perfabi.HitChildOff, perfabi.HitChildValid, "no child")...)
	}
	// The kernel keeps the name padded with NULs (__set_task_comm), and this costs less than bpf_get_current_comm.
	stackAddr(asm.R1, stackHit+perfabi.HitCommOff)
	add(asm.Mov.Imm(asm.R2, perfabi.HitCommSize),
		asm.Mov.Reg(asm.R3, asm.R8),
		asm.Add.Imm(asm.R3, p.config.offsets.comm),
		asm.FnProbeReadKernel.Call(),
		asm.LoadMem(asm.R1, asm.R6, ctxCS, asm.DWord),
		asm.And.Imm(asm.R1, 3),
		asm.JNE.Imm(asm.R1, 0, "user"))

	// A hit made by the kernel: where the process was, and in which system call. orig_ax is a system call's number
	// only when the process came in by an instruction that makes one, which the bytes before its ip tell.
	add(asm.Or.Imm(asm.R9, perfabi.HitKernel),
		asm.Mov.Reg(asm.R1, asm.R8),
		asm.FnTaskPtRegs.Call(),
		asm.LoadMem(asm.R3, asm.R0, ctxIP, asm.DWord),
		asm.LoadMem(asm.R2, asm.R0, ctxOrigAX, asm.DWord),
		asm.JEq.Imm(asm.R3, 0, "emit"),
		asm.StoreMem(asm.RFP, field(perfabi.HitUserIPOff), asm.R3, asm.DWord),
		asm.StoreMem(asm.RFP, field(perfabi.HitSyscallOff), asm.R2, asm.DWord),
		asm.Or.Imm(asm.R9, perfabi.HitUserContext),
		asm.Sub.Imm(asm.R3, 2),
		asm.StoreImm(asm.RFP, stackCode, 0, asm.Word))
	stackAddr(asm.R1, stackCode)
	add(asm.Mov.Imm(asm.R2, 2),
		asm.FnProbeReadUser.Call(),
		asm.LoadMem(asm.R1, asm.RFP, stackCode, asm.Half),
		asm.JEq.Imm(asm.R1, 0x050f, "syscall"), // syscall
		asm.JEq.Imm(asm.R1, 0x80cd, "syscall"), // int $0x80
		asm.JEq.Imm(asm.R1, 0x340f, "syscall"), // sysenter
		asm.Ja.Label("emit"),
		asm.Or.Imm(asm.R9, perfabi.HitInSyscall).WithSymbol("syscall"),
		asm.Ja.Label("emit"))

	add(asm.LoadMem(asm.R3, asm.R6, ctxIP, asm.DWord).WithSymbol("user"))
	if s.Access != "w" && s.Access != "x" {
		// Reading code that is itself watched would be a hit of its own: leave it out when ip is that near.
		add(asm.LoadMem(asm.R1, asm.R6, ctxAddr, asm.DWord),
			asm.Sub.Reg(asm.R1, asm.R3),
			asm.Add.Imm(asm.R1, perfabi.HitCodeBack+8),
			asm.JLE.Imm(asm.R1, perfabi.HitCodeSize+8, "emit"))
	}
	add(readCode("emit")...)

	size := perfabi.HitSizeBare
	add(asm.Mov.Imm(asm.R1, 0).WithSymbol("emit"))
	if p.config.regs {
		size = perfabi.HitSize
		for i, offset := range ctxRegs() {
			add(asm.LoadMem(asm.R1, asm.R6, offset, asm.DWord),
				asm.StoreMem(asm.RFP, field(perfabi.HitRegsOff+8*i), asm.R1, asm.DWord))
		}
		add(asm.Or.Imm(asm.R9, perfabi.HitRegsValid))
	}
	add(asm.StoreMem(asm.RFP, field(perfabi.HitFlagsOff), asm.R9, asm.Word),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.LoadMapPtr(asm.R2, output.FD()),
		asm.LoadImm(asm.R3, 0xffffffff, asm.DWord)) // BPF_F_CURRENT_CPU
	stackAddr(asm.R4, stackHit)
	add(asm.Mov.Imm(asm.R5, int32(size)),
		asm.FnPerfEventOutput.Call(),
		asm.JNE.Imm(asm.R0, 0, "failed"))
	bump(tallyEmitted)
	add(asm.Ja.Label("out"))

	label := func(name string) { // names the next bump's first instruction
		add(asm.Mov.Imm(asm.R0, 0).WithSymbol(name))
	}
	label("failed")
	bump(tallyFailed)
	add(asm.Ja.Label("out"))
	label("foreign")
	bump(tallyForeign)
	add(asm.Ja.Label("out"))
	add(asm.JNE.Imm(asm.R1, gateStopped, "early").WithSymbol("closed"))
	bump(tallyStopped)
	add(asm.Ja.Label("out"))
	label("early")
	bump(tallyEarly)
	add(asm.Mov.Imm(asm.R0, 0).WithSymbol("out"), asm.Return())
	return ins
}

// readCode returns instructions that read the code around ip into the payload. Where it lies in two pages of which only one
// can be read, as where a compiler has put the first code into a new mapping, the part in that page is taken. done is the
// label behind them.
func readCode(done string) asm.Instructions {
	const start, size = stackHit + perfabi.HitCodeOff, perfabi.HitCodeSize
	told := func(at, n asm.Register) asm.Instructions {
		return asm.Instructions{
			asm.StoreMem(asm.RFP, stackHit+perfabi.HitCodeAtOff, at, asm.Word),
			asm.StoreMem(asm.RFP, stackHit+perfabi.HitCodeLenOff, n, asm.Word),
			asm.Ja.Label(done),
		}
	}
	// beginning loads R3 with the address of the code and R8 with how much of it lies before the end of its page.
	beginning := asm.Instructions{
		asm.LoadMem(asm.R3, asm.R6, ctxIP, asm.DWord),
		asm.Sub.Imm(asm.R3, perfabi.HitCodeBack),
		asm.Mov.Imm(asm.R8, pageSize),
		asm.Mov.Reg(asm.R1, asm.R3),
		asm.And.Imm(asm.R1, pageSize-1),
		asm.Sub.Reg(asm.R8, asm.R1),
		asm.JGE.Imm(asm.R8, size, done), // all in one page
		asm.Mov.Reg(asm.R1, asm.RFP),
		asm.Add.Imm(asm.R1, start),
	}
	ins := asm.Instructions{
		asm.LoadMem(asm.R3, asm.R6, ctxIP, asm.DWord),
		asm.Sub.Imm(asm.R3, perfabi.HitCodeBack),
		asm.Mov.Reg(asm.R1, asm.RFP),
		asm.Add.Imm(asm.R1, start),
		asm.Mov.Imm(asm.R2, size),
		asm.FnProbeReadUser.Call(),
		asm.JNE.Imm(asm.R0, 0, "one page"),
		asm.Mov.Imm(asm.R1, 0),
		asm.Mov.Imm(asm.R2, size),
	}
	ins = append(ins, told(asm.R1, asm.R2)...)

	second := append(asm.Instructions{}, beginning...)
	second[0] = second[0].WithSymbol("one page")
	ins = append(ins, second...)
	ins = append(ins,
		asm.Add.Reg(asm.R3, asm.R8),
		asm.Add.Reg(asm.R1, asm.R8),
		asm.Mov.Imm(asm.R2, size),
		asm.Sub.Reg(asm.R2, asm.R8),
		asm.FnProbeReadUser.Call(),
		asm.JNE.Imm(asm.R0, 0, "first page"),
		asm.Mov.Imm(asm.R2, size),
		asm.Sub.Reg(asm.R2, asm.R8))
	ins = append(ins, told(asm.R8, asm.R2)...)

	first := append(asm.Instructions{}, beginning...)
	first[0] = first[0].WithSymbol("first page")
	ins = append(ins, first...)
	ins = append(ins,
		asm.Mov.Reg(asm.R2, asm.R8),
		asm.FnProbeReadUser.Call(),
		asm.JNE.Imm(asm.R0, 0, done),
		asm.Mov.Imm(asm.R1, 0))
	return append(ins, told(asm.R1, asm.R8)...)
}

// copyBytes returns instructions that copy the bytes of a slot at the user address in register addr into the payload and
// set flag. done is the label behind them. A read of bytes that an rw watchpoint is on would be a hit of its own: then
// they are read through the direct map, or not at all.
func (p *programs) copyBytes(addr asm.Register, s Slot, offset int, flag int32, done string) asm.Instructions {
	var ins asm.Instructions
	switch {
	case p.config.directMap != nil:
		ins = p.config.directMap.read(addr, p.config.memory.pgd, stackHit+offset, int(s.Len), stackMM, done)
	case s.Access == "w" && !p.config.readsHit:
		ins = asm.Instructions{
			asm.Mov.Reg(asm.R3, addr),
			asm.Mov.Reg(asm.R1, asm.RFP),
			asm.Add.Imm(asm.R1, int32(stackHit+offset)),
			asm.Mov.Imm(asm.R2, int32(s.Len)),
			asm.FnProbeReadUser.Call(),
			asm.JNE.Imm(asm.R0, 0, done),
		}
	}
	return append(ins, asm.Or.Imm(asm.R9, flagIf(len(ins) > 0, flag)), asm.Mov.Imm(asm.R1, 0).WithSymbol(done))
}

func flagIf(set bool, flag int32) int32 {
	if set {
		return flag
	}
	return 0
}

// setGate opens or closes the session for all programs at once.
func (p *programs) setGate(state uint32) error {
	if err := p.gate.Put(uint32(0), state); err != nil {
		return fmt.Errorf("set the gate of the BPF programs: %w", err)
	}
	return nil
}

// tally sums what the program of one slot has counted on all CPUs.
func (p *programs) tally(slot int) (tally, error) {
	var perCPU []tally
	var sum tally
	if err := p.tallies.Lookup(uint32(slot), &perCPU); err != nil {
		return sum, fmt.Errorf("read the counters of slot %d: %w", slot, err)
	}
	for _, t := range perCPU {
		sum.Hits += t.Hits
		sum.Emitted += t.Emitted
		sum.Failed += t.Failed
		sum.Foreign += t.Foreign
		sum.Stopped += t.Stopped
		sum.Early += t.Early
	}
	return sum, nil
}

// close releases programs and maps. The maps have to live until then: closing the descriptor of a perf event array
// empties it, and output would stop without a word.
func (p *programs) close() {
	for _, prog := range p.slots {
		prog.Close()
	}
	for _, m := range []*ebpf.Map{p.tallies, p.gate, p.quiet, p.wake} {
		if m != nil {
			m.Close()
		}
	}
	runtime.KeepAlive(p)
}
