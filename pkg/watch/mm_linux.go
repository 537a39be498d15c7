//go:build amd64

package watch

import (
	"errors"
	"fmt"
	"io"
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

// offsets are places in structures of the running kernel, bytes.
type offsets struct {
	mm   int32 // of mm in task_struct
	comm int32 // of comm in task_struct
	pgd  int32 // of pgd in mm_struct
}

// kernelOffsets finds the offsets in the running kernel's type information.
func kernelOffsets() (offsets, error) {
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		return offsets{}, fmt.Errorf("read the kernel's type information: %w", err)
	}
	mm, err := memberOffset(spec, "task_struct", "mm")
	if err != nil {
		return offsets{}, err
	}
	comm, err := memberOffset(spec, "task_struct", "comm")
	if err != nil {
		return offsets{}, err
	}
	pgd, err := memberOffset(spec, "mm_struct", "pgd")
	return offsets{mm: mm, comm: comm, pgd: pgd}, err
}

func memberOffset(spec *btf.Spec, structName, member string) (int32, error) {
	var s *btf.Struct
	if err := spec.TypeByName(structName, &s); err != nil {
		return 0, fmt.Errorf("find %s in the kernel's type information: %w", structName, err)
	}
	if offset, ok := findMember(s, member, 0); ok {
		return offset, nil
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

// memoryOf finds the memory that the process of pidfd has now. A BPF iterator over its tasks reads it
// (bpf_iter_link_info.task.pid_fd of linux/bpf.h): it needs no hit and no pid, whose number depends on the namespace.
func memoryOf(pidfd int, o offsets) (memory, error) {
	result, err := ebpf.NewMap(&ebpf.MapSpec{Name: "xw_mm", Type: ebpf.Array, KeySize: 4, ValueSize: 16, MaxEntries: 1})
	if err != nil {
		return memory{}, fmt.Errorf("create BPF map xw_mm: %w", err)
	}
	defer result.Close()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "xw_mm", Type: ebpf.Tracing, AttachType: ebpf.AttachTraceIter, AttachTo: "task", License: "GPL",
		Instructions: memoryProgram(result.FD(), o),
	})
	if err != nil {
		return memory{}, fmt.Errorf("load BPF task iterator: %w", err)
	}
	defer prog.Close()
	if err := runTaskIterator(prog.FD(), pidfd); err != nil {
		return memory{}, err
	}
	var found [2]uint64
	if err := result.Lookup(uint32(0), &found); err != nil {
		return memory{}, fmt.Errorf("read the result of the BPF task iterator: %w", err)
	}
	if found[0] == 0 {
		return memory{}, errNoMM
	}
	return memory{mm: found[0], pgd: found[1]}, nil
}

// memoryProgram stores the mm of a task that has one, and its pgd. The context is struct bpf_iter__task: meta, task.
func memoryProgram(mapFD int, o offsets) asm.Instructions {
	read := func(from asm.Register, offset int32) asm.Instructions { // *(u64 *)(from + offset) to R6
		return asm.Instructions{
			asm.Mov.Reg(asm.R3, from),
			asm.Add.Imm(asm.R3, offset),
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
	return append(ins,
		asm.StoreMem(asm.R7, 8, asm.R6, asm.DWord),
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
