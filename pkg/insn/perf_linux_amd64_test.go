package insn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// watchedHit is one sample of a watchpoint.
type watchedHit struct {
	ip     uint64
	kernel bool
	regs   [16]uint64
}

// sampledRegs are the bits of PERF_REG_X86_AX to SP and R8 to R15.
const sampledRegs = 0xff | 0xff<<16

// watchpoint is a watchpoint on a process of one thread, sampled at every hit with the registers.
type watchpoint struct {
	fd   int
	ring []byte
}

func openWatchpoint(t testing.TB, pid int, addr, length uint64, access string, kernel bool) *watchpoint {
	t.Helper()
	kind := map[string]uint32{"w": 2, "rw": 3, "x": 4}[access] // HW_BREAKPOINT_W, RW and X of linux/hw_breakpoint.h
	attr := unix.PerfEventAttr{
		Type:             unix.PERF_TYPE_BREAKPOINT,
		Bp_type:          kind,
		Ext1:             addr,
		Ext2:             length,
		Sample:           1,
		Sample_type:      unix.PERF_SAMPLE_IP | unix.PERF_SAMPLE_REGS_INTR,
		Sample_regs_intr: sampledRegs,
		Bits:             unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv,
	}
	if kernel {
		attr.Bits = 0
	}
	attr.Size = uint32(unsafe.Sizeof(attr))
	fd, err := unix.PerfEventOpen(&attr, pid, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		t.Fatalf("perf_event_open: %s at %#x of %d bytes: %v", access, addr, length, err)
	}
	w := &watchpoint{fd: fd}
	t.Cleanup(w.close)
	w.ring, err = unix.Mmap(fd, 0, 17*unix.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatalf("mmap: %v", err)
	}
	return w
}

func (w *watchpoint) close() {
	if w.fd < 0 {
		return
	}
	if w.ring != nil {
		_ = unix.Munmap(w.ring) // the process ends soon after
	}
	unix.Close(w.fd)
	w.fd = -1
}

// hits stops the watchpoint and gives all its samples, which have to fit into the ring.
func (w *watchpoint) hits(t testing.TB) []watchedHit {
	t.Helper()
	if err := unix.IoctlSetInt(w.fd, unix.PERF_EVENT_IOC_DISABLE, 0); err != nil {
		t.Fatalf("PERF_EVENT_IOC_DISABLE: %v", err)
	}
	page := (*unix.PerfEventMmapPage)(unsafe.Pointer(&w.ring[0]))
	hits, err := parseHits(w.ring[page.Data_offset:][:page.Data_head])
	if err != nil {
		t.Fatal(err)
	}
	return hits
}

func parseHits(records []byte) (hits []watchedHit, err error) {
	for len(records) > 0 {
		kind, size := binary.NativeEndian.Uint32(records), binary.NativeEndian.Uint16(records[6:])
		if kind != unix.PERF_RECORD_SAMPLE {
			return nil, fmt.Errorf("record of type %d", kind)
		}
		var h watchedHit
		h.kernel = binary.NativeEndian.Uint16(records[4:])&unix.PERF_RECORD_MISC_CPUMODE_MASK == unix.PERF_RECORD_MISC_KERNEL
		h.ip = binary.NativeEndian.Uint64(records[8:])
		if abi := binary.NativeEndian.Uint64(records[16:]); abi == unix.PERF_SAMPLE_REGS_ABI_NONE {
			return nil, errors.New("sample without registers")
		}
		for i := range h.regs {
			h.regs[i] = binary.NativeEndian.Uint64(records[24+8*i:])
		}
		hits = append(hits, h)
		records = records[size:]
	}
	return hits, nil
}
