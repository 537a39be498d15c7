//go:build amd64

package watch

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// directMap is the kernel's mapping of all physical memory (Documentation/arch/x86/x86_64/mm.rst). A program reads an
// rw watch's bytes through it, after a walk of the target's page tables: the debug registers match linear addresses,
// so that this read, at another one, is no hit.
type directMap struct {
	base   uint64 // its first address
	levels int    // of page tables: 4, or 5 with LA57
}

// Bits of a page table entry, Intel SDM volume 3, 5.5.
const (
	entryPresent = 1 << 0
	entryUser    = 1 << 2
	entryLarge   = 1 << 7
	entryAddress = 0x000ffffffffff000
)

// userBits is how many bits a user address may have: the half of the address space whose top bit is not set.
func (m *directMap) userBits() int32 { return int32(12 + 9*m.levels - 1) }

// read returns instructions that copy n bytes at the user address in register addr to dst bytes from register base. They use
// R0 to R5 and 16 bytes of stack from scratch-8 on, and jump to failed when the bytes cannot be read.
//
// The address may be what the target has stored to a pointer. It must not lead to the kernel's memory, which is in the same page
// tables, nor from one page on to what only follows it in physical memory: so it is refused unless it is a user address, the user
// may access each level of its way, and the bytes are in one page.
func (m *directMap) read(addr asm.Register, pgd uint64, base asm.Register, dst, n, scratch int, failed string) asm.Instructions {
	entry, user := int16(scratch), int16(scratch-8)
	ins := asm.Instructions{
		asm.StoreMem(asm.RFP, user, addr, asm.DWord),
		asm.Mov.Reg(asm.R2, addr),
		asm.RSh.Imm(asm.R2, m.userBits()),
		asm.JNE.Imm(asm.R2, 0, failed),
		asm.Mov.Reg(asm.R2, addr),
		asm.And.Imm(asm.R2, pageSize-1),
		asm.JGT.Imm(asm.R2, int32(pageSize-n), failed),
		asm.LoadImm(asm.R3, int64(pgd), asm.DWord),
	}
	page := failed + " page"
	for level := m.levels - 1; level >= 0; level-- {
		shift := int32(12 + 9*level)
		ins = append(ins,
			asm.LoadMem(asm.R1, asm.RFP, user, asm.DWord),
			asm.RSh.Imm(asm.R1, shift),
			asm.And.Imm(asm.R1, 511),
			asm.LSh.Imm(asm.R1, 3),
			asm.Add.Reg(asm.R3, asm.R1),
			asm.Mov.Reg(asm.R1, asm.RFP),
			asm.Add.Imm(asm.R1, int32(entry)),
			asm.Mov.Imm(asm.R2, 8),
			asm.FnProbeReadKernel.Call(),
			asm.JNE.Imm(asm.R0, 0, failed),
			asm.LoadMem(asm.R3, asm.RFP, entry, asm.DWord),
			asm.Mov.Reg(asm.R4, asm.R3),
			asm.And.Imm(asm.R4, entryPresent|entryUser),
			asm.JNE.Imm(asm.R4, entryPresent|entryUser, failed),
			asm.Mov.Reg(asm.R4, asm.R3),
			asm.LoadImm(asm.R2, entryAddress, asm.DWord),
			asm.And.Reg(asm.R3, asm.R2))
		large := fmt.Sprintf("%s level %d", failed, level)
		mask := int64(1)<<shift - 1
		if level == 1 || level == 2 { // 2 MiB and 1 GiB pages
			ins = append(ins,
				asm.And.Imm(asm.R4, entryLarge),
				asm.JEq.Imm(asm.R4, 0, large))
		}
		if level <= 2 {
			ins = append(ins,
				asm.LoadImm(asm.R2, ^mask, asm.DWord),
				asm.And.Reg(asm.R3, asm.R2),
				asm.LoadMem(asm.R1, asm.RFP, user, asm.DWord),
				asm.LoadImm(asm.R2, mask, asm.DWord),
				asm.And.Reg(asm.R1, asm.R2),
				asm.Add.Reg(asm.R3, asm.R1),
				asm.Ja.Label(page))
		}
		add := asm.LoadImm(asm.R2, int64(m.base), asm.DWord)
		if level == 1 || level == 2 {
			add = add.WithSymbol(large)
		}
		if level > 0 {
			ins = append(ins, add, asm.Add.Reg(asm.R3, asm.R2))
		}
	}
	return append(ins,
		asm.LoadImm(asm.R2, int64(m.base), asm.DWord).WithSymbol(page),
		asm.Add.Reg(asm.R3, asm.R2),
		asm.Mov.Reg(asm.R1, base),
		asm.Add.Imm(asm.R1, int32(dst)),
		asm.Mov.Imm(asm.R2, int32(n)),
		asm.FnProbeReadKernel.Call(),
		asm.JNE.Imm(asm.R0, 0, failed))
}

// directMapAlign is what the kernel aligns the direct map's base to (PUD_SIZE, arch/x86/mm/kaslr.c).
const directMapAlign = 1 << 30

// errNoDirectMap says that no candidate base gave the word that is known.
var errNoDirectMap = errors.New("the kernel's direct map of physical memory was not found")

// findDirectMap finds the direct map by a word of this process whose value is known: the program of a watchpoint on it
// tries one candidate base after the other. A top page table lies in the direct map, so that the base is at most the size
// of physical memory below it.
func findDirectMap(o offsets) (*directMap, error) {
	own, err := unix.PidfdOpen(unix.Getpid(), 0)
	if err != nil {
		return nil, fmt.Errorf("open a pidfd of xw-open itself: %w", err)
	}
	defer unix.Close(own)
	mem, _, err := memoryOf(own, o)
	if err != nil {
		return nil, err
	}
	top, err := physicalEnd()
	if err != nil {
		return nil, err
	}
	probe, err := newProbeWord()
	if err != nil {
		return nil, err
	}
	defer probe.close()
	for _, levels := range []int{4, 5} {
		first := mem.pgd &^ (directMapAlign - 1)
		for back := uint64(0); back <= top; back += directMapAlign {
			m := &directMap{base: first - back, levels: levels}
			ok, err := probe.try(m, mem.pgd)
			if err != nil {
				return nil, err
			}
			if ok {
				return m, nil
			}
		}
	}
	return nil, errNoDirectMap
}

// physicalEnd is an upper bound of the physical addresses of memory, from /proc/meminfo: holes below 4 GiB and those
// of firmware make the addresses reach further than the size.
func physicalEnd() (uint64, error) {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, fmt.Errorf("read the size of memory: %w", err)
	}
	fields := strings.Fields(string(b))
	for i, f := range fields {
		if f == "MemTotal:" && i+1 < len(fields) {
			kib, err := strconv.ParseUint(fields[i+1], 10, 64)
			if err != nil {
				return 0, fmt.Errorf("read the size of memory: %q: %w", fields[i+1], err)
			}
			const holes = 8 << 30
			return kib<<10 + kib<<8 + holes, nil
		}
	}
	return 0, errors.New("read the size of memory: /proc/meminfo has no MemTotal")
}

// probeWord is a word of this process and a map for what a program found there.
type probeWord struct {
	page   []byte
	word   *uint64
	result *ebpf.Map
}

func newProbeWord() (*probeWord, error) {
	page, err := unix.Mmap(-1, 0, unix.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("map a page of xw-open's own: %w", err)
	}
	result, err := ebpf.NewMap(&ebpf.MapSpec{Name: "xw_probe", Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		unix.Munmap(page)
		return nil, fmt.Errorf("create BPF map xw_probe: %w", err)
	}
	return &probeWord{page: page, word: (*uint64)(unsafe.Pointer(&page[0])), result: result}, nil
}

func (p *probeWord) close() {
	unix.Munmap(p.page)
	p.result.Close()
}

// try stores a value to the word, twice different ones, and reports whether the program of a watchpoint on it read both
// through m.
func (p *probeWord) try(m *directMap, pgd uint64) (bool, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ins := asm.Instructions{asm.LoadMem(asm.R1, asm.R1, ctxAddr, asm.DWord)}
	ins = append(ins, m.read(asm.R1, pgd, asm.RFP, -8, 8, -16, "out")...)
	ins = append(ins,
		asm.LoadMem(asm.R1, asm.RFP, -8, asm.DWord),
		asm.LoadMapValue(asm.R2, p.result.FD(), 0),
		asm.StoreMem(asm.R2, 0, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("out"),
		asm.Return())
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "xw_probe", Type: ebpf.PerfEvent, License: "GPL", Instructions: ins})
	if err != nil {
		return false, fmt.Errorf("load the BPF program that looks for the direct map: %w", err)
	}
	defer prog.Close()
	slot := Slot{Addr: uint64(uintptr(unsafe.Pointer(p.word))), Len: 8, Access: "w"}
	e, err := openEvent(attrs{}.breakpoint(slot, 0), 0, -1, nil)
	if err != nil {
		return false, ownWordError(slot, err)
	}
	defer e.close()
	if err := e.ioctl(unix.PERF_EVENT_IOC_SET_BPF, prog.FD()); err != nil {
		return false, fmt.Errorf("attach the BPF program that looks for the direct map: %w", err)
	}
	for _, value := range []uint64{0x9e3779b97f4a7c15, 0xc2b2ae3d27d4eb4f} {
		atomic.StoreUint64(p.word, value)
		var got uint64
		if err := p.result.Lookup(uint32(0), &got); err != nil {
			return false, fmt.Errorf("read the word that the BPF program found: %w", err)
		}
		if got != value {
			return false, nil
		}
	}
	return true, nil
}
