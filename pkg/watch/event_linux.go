//go:build amd64

package watch

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"xw/pkg/perfabi"
)

// event is one open perf_event.
type event struct {
	fd  int
	id  uint64 // PERF_EVENT_IOC_ID; children inherited from it report the same
	cpu int
}

// openEvent opens attr on a thread (-1: all) and a CPU. With a ring the event's records go there from its first
// moment on: PERF_FLAG_FD_OUTPUT takes effect before the event is live.
func openEvent(attr *unix.PerfEventAttr, tid, cpu int, ring *event) (*event, error) {
	group, flags := -1, unix.PERF_FLAG_FD_CLOEXEC
	if ring != nil {
		group = ring.fd
		flags |= unix.PERF_FLAG_FD_OUTPUT | unix.PERF_FLAG_FD_NO_GROUP
	}
	fd, err := unix.PerfEventOpen(attr, tid, cpu, group, flags)
	if err != nil {
		return nil, err
	}
	e := &event{fd: fd, cpu: cpu}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.PERF_EVENT_IOC_ID, uintptr(unsafe.Pointer(&e.id))); errno != 0 {
		unix.Close(fd)
		return nil, fmt.Errorf("PERF_EVENT_IOC_ID: %w", errno)
	}
	return e, nil
}

func (e *event) ioctl(request uint, arg int) error {
	return unix.IoctlSetInt(e.fd, request, arg)
}

// modify re-aims a breakpoint event; attr must equal the one it was opened with but for bp_* and disabled.
func (e *event) modify(attr *unix.PerfEventAttr) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(e.fd), unix.PERF_EVENT_IOC_MODIFY_ATTRIBUTES, uintptr(unsafe.Pointer(attr)))
	if errno != 0 {
		return errno
	}
	return nil
}

// count reads the event's own count, children included, and how many of its records were lost, where the kernel
// tells (PERF_FORMAT_LOST, Linux 6.0).
func (e *event) count(withLost bool) (count, lost uint64, err error) {
	var buf [2]uint64
	n := 8
	if withLost {
		n = 16
	}
	got, err := unix.Read(e.fd, unsafe.Slice((*byte)(unsafe.Pointer(&buf)), n))
	if err != nil {
		return 0, 0, fmt.Errorf("read the count of a watchpoint: %w", err)
	}
	if got < n {
		return 0, 0, fmt.Errorf("read the count of a watchpoint: %d of %d bytes", got, n)
	}
	return buf[0], buf[1], nil
}

func (e *event) close() { unix.Close(e.fd) }

// attrs makes the perf_event_attr of a session's events from what the session wants.
type attrs struct {
	regs, callchain bool
	kernel          bool // hits made by the kernel too
	lost            bool // PERF_FORMAT_LOST is known to the kernel
	program         bool // breakpoint events carry a BPF program
	bare            bool // and do so before they are switched on: their own samples never come
	cpu             bool // records tell their CPU, since their ring does not
	watermark       uint32
}

// common is what all events of one ring must agree on, and what makes every record tell its event.
func (a attrs) common(kind uint32, config uint64, bits uint64) *unix.PerfEventAttr {
	return &unix.PerfEventAttr{
		Type: kind, Config: config, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Clockid: unix.CLOCK_MONOTONIC,
		Bits:    bits | perfabi.AttrUseClockID | perfabi.AttrSampleIDAll,
	}
}

// sideband is the software event that carries records about tasks, names and mappings. It never counts, so that leaving
// the kernel out changes nothing but the privilege it takes.
func (a attrs) sideband(bits uint64) *unix.PerfEventAttr {
	attr := a.common(perfabi.TypeSoftware, perfabi.SWDummy, bits|perfabi.AttrExcludeKernel)
	attr.Sample_type = perfabi.SampleIdentifier | perfabi.SampleTID | perfabi.SampleTime
	if a.cpu {
		// Scope thread: a new thread is unwatched until its FORK record is seen, so that is worth a wake-up.
		attr.Sample_type |= perfabi.SampleCPU
		attr.Wakeup = 1
		return attr
	}
	attr.Bits |= perfabi.AttrWatermark
	attr.Wakeup = a.watermark
	return attr
}

// pin is an event that does nothing but be there.
func (a attrs) pin() *unix.PerfEventAttr {
	return a.common(perfabi.TypeSoftware, perfabi.SWDummy, perfabi.AttrDisabled|perfabi.AttrExcludeKernel)
}

// Bits of sideband events.
const (
	sidebandAll = perfabi.AttrTask | perfabi.AttrComm | perfabi.AttrCommExec | perfabi.AttrMmap | perfabi.AttrMmap2 | perfabi.AttrBuildID
	sidebandEnd = perfabi.AttrTask
)

// placeholder is where the event of an unbound slot points: the null page, which no process can map (mmap_min_addr).
const placeholder = 0x10

// breakpoint is the watchpoint itself. With a program its own sample stays small, since the kernel prepares it before the
// program runs (bpf_overflow_handler, kernel/events/core.c); it is only seen from a thread whose event has no program yet.
func (a attrs) breakpoint(s Slot, bits uint64) *unix.PerfEventAttr {
	attr := a.common(perfabi.TypeBreakpoint, 0, bits|perfabi.AttrExcludeCallchainKernel)
	if !a.kernel {
		attr.Bits |= perfabi.AttrExcludeKernel
	}
	attr.Bits |= perfabi.AttrExcludeHV
	attr.Sample = 1
	attr.Sample_type = perfabi.SampleIdentifier
	if !a.bare {
		attr.Sample_type |= perfabi.SampleIP | perfabi.SampleTID | perfabi.SampleTime | perfabi.SampleAddr
	}
	if a.cpu {
		attr.Sample_type |= perfabi.SampleCPU
	}
	if !a.program {
		if a.callchain {
			attr.Sample_type |= perfabi.SampleCallchain
		}
		if a.kernel {
			attr.Sample_type |= perfabi.SampleRegsUser
			attr.Sample_regs_user = perfabi.MaskIP
		}
		if a.regs {
			attr.Sample_type |= perfabi.SampleRegsIntr
			attr.Sample_regs_intr = perfabi.MaskGeneral
		}
	}
	if s.Wake && !a.program {
		attr.Wakeup = 1
	} else {
		attr.Bits |= perfabi.AttrWatermark
		attr.Wakeup = a.watermark
	}
	if a.lost {
		attr.Read_format = perfabi.FormatLost
	}
	aim(attr, s)
	return attr
}

// aim sets the fields that say where a breakpoint event watches. An execute breakpoint's length is that of a long.
func aim(attr *unix.PerfEventAttr, s Slot) {
	attr.Ext1, attr.Ext2 = s.Addr, s.Len
	if s.Addr == 0 {
		attr.Ext1 = placeholder
	}
	switch s.Access {
	case "w":
		attr.Bp_type = perfabi.BreakpointWrite
	case "x":
		attr.Bp_type = perfabi.BreakpointExec
		attr.Ext2 = 8
	default:
		attr.Bp_type = perfabi.BreakpointRW
	}
}
