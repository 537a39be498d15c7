//go:build amd64

package watch

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// Commands and attach type of bpf(2), enum bpf_cmd and enum bpf_attach_type of linux/bpf.h.
const (
	bpfLinkCreate = 28
	bpfIterCreate = 33
	bpfTraceIter  = 28
)

// errNoMM says that no thread of the process has memory any more.
var errNoMM = errors.New("no thread of the process has memory")

// memory is what a program has to know of a process's memory: kernel addresses, for use inside programs only.
type memory struct {
	mm  uint64 // the mm_struct
	pgd uint64 // its top page table
}

// namespace is the pid namespace of this process: the ids in samples are of it, as those in the kernel's own records are.
type namespace struct {
	addr  uint64 // the pid_namespace, for use inside programs only
	level uint32 // 0 for the first one of the system
}

// offsets are places in structures of the running kernel, in bytes; all can be those of an instruction.
type offsets struct {
	mm          int16 // of mm in task_struct
	comm        int16 // of comm in task_struct
	threadPID   int16 // of thread_pid in task_struct
	groupLeader int16 // of group_leader in task_struct
	pgd         int16 // of pgd in mm_struct
	level       int16 // of level in pid
	numbers     int16 // of numbers in pid: a upid of each level
	nr          int16 // of nr in upid
	ns          int16 // of ns in upid
}

// upidSize is the size of struct upid of linux/pid.h: an int and a pointer.
const upidSize = 16

// kernelOffsets finds the offsets in the running kernel's type information.
func kernelOffsets() (offsets, error) {
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		return offsets{}, fmt.Errorf("read the kernel's type information: %w", err)
	}
	var o offsets
	for _, m := range []struct {
		dst            *int16
		object, member string
	}{
		{&o.mm, "task_struct", "mm"},
		{&o.comm, "task_struct", "comm"},
		{&o.threadPID, "task_struct", "thread_pid"},
		{&o.groupLeader, "task_struct", "group_leader"},
		{&o.pgd, "mm_struct", "pgd"},
		{&o.level, "pid", "level"},
		{&o.numbers, "pid", "numbers"},
		{&o.nr, "upid", "nr"},
		{&o.ns, "upid", "ns"},
	} {
		if *m.dst, err = memberOffset(spec, m.object, m.member); err != nil {
			return offsets{}, err
		}
	}
	return o, nil
}

func memberOffset(spec *btf.Spec, structName, member string) (int16, error) {
	var s *btf.Struct
	if err := spec.TypeByName(structName, &s); err != nil {
		return 0, fmt.Errorf("find %s in the kernel's type information: %w", structName, err)
	}
	if offset, ok := findMember(s, member, 0); ok && offset <= math.MaxInt16 {
		return int16(offset), nil
	}
	return 0, fmt.Errorf("find %s.%s in the kernel's type information: %w", structName, member, btf.ErrNotFound)
}

// findMember looks for a member, also in anonymous structures inside (mm_struct is one since Linux 4.18).
func findMember(s *btf.Struct, name string, base int32) (int32, bool) {
	for _, m := range s.Members {
		offset := base + int32(m.Offset.Bytes())
		if m.Name == name {
			return offset, true
		}
		if inner, ok := m.Type.(*btf.Struct); ok && m.Name == "" {
			if found, ok := findMember(inner, name, offset); ok {
				return found, true
			}
		}
	}
	return 0, false
}

// memoryOf finds the memory that the process of pidfd has now, and the namespace of this one. A BPF iterator over its tasks
// reads them (bpf_iter_link_info.task.pid_fd of linux/bpf.h): it needs no hit and no pid, whose number depends on the
// namespace.
func memoryOf(pidfd int, o offsets) (memory, namespace, error) {
	fail := func(err error) (memory, namespace, error) { return memory{}, namespace{}, err }
	result, err := ebpf.NewMap(&ebpf.MapSpec{Name: "xw_mm", Type: ebpf.Array, KeySize: 4, ValueSize: 32, MaxEntries: 1})
	if err != nil {
		return fail(fmt.Errorf("create BPF map xw_mm: %w", err))
	}
	defer result.Close()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "xw_mm", Type: ebpf.Tracing, AttachType: ebpf.AttachTraceIter, AttachTo: "task", License: "GPL",
		Instructions: memoryProgram(result.FD(), o),
	})
	if err != nil {
		return fail(fmt.Errorf("load BPF task iterator: %w", err))
	}
	defer prog.Close()
	if err := runTaskIterator(prog.FD(), pidfd); err != nil {
		return fail(err)
	}
	var found struct{ MM, PGD, Namespace, Level uint64 }
	if err := result.Lookup(uint32(0), &found); err != nil {
		return fail(fmt.Errorf("read the result of the BPF task iterator: %w", err))
	}
	if found.MM == 0 {
		return fail(errNoMM)
	}
	return memory{mm: found.MM, pgd: found.PGD}, namespace{addr: found.Namespace, level: uint32(found.Level)}, nil
}

// memoryProgram stores the mm of a task that has one, its pgd, and the pid namespace of the task that runs the iterator. The
// context is struct bpf_iter__task: meta, task.
func memoryProgram(mapFD int, o offsets) asm.Instructions {
	read := func(from asm.Register, offset int16) asm.Instructions { // *(u64 *)(from + offset) to R6
		return asm.Instructions{
			asm.Mov.Reg(asm.R3, from),
			asm.Add.Imm(asm.R3, int32(offset)),
			asm.Mov.Reg(asm.R1, asm.RFP),
			asm.Add.Imm(asm.R1, -8),
			asm.Mov.Imm(asm.R2, 8),
			asm.FnProbeReadKernel.Call(),
			asm.LoadMem(asm.R6, asm.RFP, -8, asm.DWord),
		}
	}
	ins := asm.Instructions{
		asm.LoadMem(asm.R7, asm.R1, 8, asm.DWord),
		asm.JEq.Imm(asm.R7, 0, "out"),
	}
	ins = append(ins, read(asm.R7, o.mm)...)
	ins = append(ins,
		asm.JEq.Imm(asm.R6, 0, "out"),
		asm.LoadMapValue(asm.R7, mapFD, 0),
		asm.StoreMem(asm.R7, 0, asm.R6, asm.DWord))
	ins = append(ins, read(asm.R6, o.pgd)...)
	ins = append(ins,
		asm.StoreMem(asm.R7, 8, asm.R6, asm.DWord),
		asm.FnGetCurrentTask.Call())
	ins = append(ins, read(asm.R0, o.threadPID)...)
	ins = append(ins, asm.Mov.Reg(asm.R8, asm.R6))
	ins = append(ins, read(asm.R8, o.level)...)
	ins = append(ins,
		asm.Mov.Reg32(asm.R6, asm.R6), // an unsigned int
		asm.StoreMem(asm.R7, 24, asm.R6, asm.DWord),
		asm.Mul.Imm(asm.R6, upidSize),
		asm.Add.Reg(asm.R6, asm.R8))
	ins = append(ins, read(asm.R6, o.numbers+o.ns)...)
	return append(ins,
		asm.StoreMem(asm.R7, 16, asm.R6, asm.DWord),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("out"),
		asm.Return())
}

// runTaskIterator runs an iterator program over the tasks of pidfd's process, start to end.
func runTaskIterator(progFD, pidfd int) error {
	var pins runtime.Pinner // the kernel follows the address in link.info
	defer pins.Unpin()
	info := &struct{ tid, pid, pidfd uint32 }{pidfd: uint32(pidfd)}
	pins.Pin(info)
	link := struct {
		prog, target, attach, flags uint32
		info                        uint64
		infoLen, _                  uint32
	}{prog: uint32(progFD), attach: bpfTraceIter, info: uint64(uintptr(unsafe.Pointer(info))), infoLen: uint32(unsafe.Sizeof(*info))}
	linkFD, err := bpf(bpfLinkCreate, unsafe.Pointer(&link), unsafe.Sizeof(link))
	if err != nil {
		return fmt.Errorf("attach BPF task iterator: %w", err)
	}
	defer unix.Close(linkFD)
	iter := struct{ link, flags uint32 }{link: uint32(linkFD)}
	iterFD, err := bpf(bpfIterCreate, unsafe.Pointer(&iter), unsafe.Sizeof(iter))
	if err != nil {
		return fmt.Errorf("create BPF task iterator: %w", err)
	}
	f := os.NewFile(uintptr(iterFD), "bpf_iter")
	defer f.Close()
	if _, err := io.Copy(io.Discard, f); err != nil {
		return fmt.Errorf("run BPF task iterator: %w", err)
	}
	return nil
}

func bpf(cmd uintptr, attr unsafe.Pointer, size uintptr) (int, error) {
	fd, _, errno := unix.Syscall(unix.SYS_BPF, cmd, uintptr(attr), size)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}
