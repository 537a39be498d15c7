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

// mmOf returns the kernel address of the mm_struct that the process of pidfd has now. A BPF iterator over its tasks
// reads it (bpf_iter_link_info.task.pid_fd of linux/bpf.h): it needs no hit and no pid, whose number depends on the
// namespace. The value is for comparison in a program only.
func mmOf(pidfd int, mmOffset int32) (uint64, error) {
	result, err := ebpf.NewMap(&ebpf.MapSpec{Name: "xw_mm", Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		return 0, fmt.Errorf("create BPF map xw_mm: %w", err)
	}
	defer result.Close()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "xw_mm", Type: ebpf.Tracing, AttachType: ebpf.AttachTraceIter, AttachTo: "task", License: "GPL",
		Instructions: mmProgram(result.FD(), mmOffset),
	})
	if err != nil {
		return 0, fmt.Errorf("load BPF task iterator: %w", err)
	}
	defer prog.Close()
	if err := runTaskIterator(prog.FD(), pidfd); err != nil {
		return 0, err
	}
	var mm uint64
	if err := result.Lookup(uint32(0), &mm); err != nil {
		return 0, fmt.Errorf("read the result of the BPF task iterator: %w", err)
	}
	if mm == 0 {
		return 0, errNoMM
	}
	return mm, nil
}

// mmProgram stores the mm of the first task that has one. The context is struct bpf_iter__task: meta, task.
func mmProgram(mapFD int, mmOffset int32) asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R3, asm.R1, 8, asm.DWord),
		asm.JEq.Imm(asm.R3, 0, "out"),
		asm.Add.Imm(asm.R3, mmOffset),
		asm.Mov.Reg(asm.R1, asm.RFP),
		asm.Add.Imm(asm.R1, -8),
		asm.Mov.Imm(asm.R2, 8),
		asm.FnProbeReadKernel.Call(),
		asm.LoadMem(asm.R1, asm.RFP, -8, asm.DWord),
		asm.JEq.Imm(asm.R1, 0, "out"),
		asm.LoadMapValue(asm.R2, mapFD, 0),
		asm.StoreMem(asm.R2, 0, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("out"),
		asm.Return(),
	}
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
