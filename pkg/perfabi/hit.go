package perfabi

import "encoding/binary"

// Offsets in the payload that xw's BPF program puts into the raw area of a sample of a PERF_COUNT_SW_BPF_OUTPUT event.
// Fields are only ever appended, so a reader takes longer payloads, and shorter ones down to hitFirst.
const (
	HitSlotOff    = 0   // u32: index in the slots of the session's watches, laid end to end
	HitFlagsOff   = 4   // u32: Hit flags
	HitAddrOff    = 8   // u64: address armed when the hit came
	HitValueOff   = 16  // u64: the slot's bytes, zero-extended
	HitUserIPOff  = 24  // u64: where the task was in user mode
	HitSyscallOff = 32  // u64: number of the system call the task was in
	HitCommOff    = 40  // HitCommSize bytes: name of the thread, NUL-padded
	HitCodeOff    = 56  // 2*HitCodeHalf bytes: the code around ip
	HitChildOff   = 88  // u64: the bytes that a pointer slot's new value leads to, zero-extended
	HitFarOff     = 96  // HitFarSize bytes: the code further before ip
	HitSize       = 144 // bytes of the whole payload

	hitFirst = HitChildOff // bytes of the first version's payload, which every one has

	HitCommSize = 16 // TASK_COMM_LEN
	HitCodeHalf = 16 // bytes of code before ip, and as many from it on
	HitFarSize  = 48 // bytes of code before those: with 64 in all nearly every instruction that ends at ip is told apart

	HitPage = 4096 // bytes of a page, the least that can be mapped
)

// Flags of a payload: which of its fields are valid, and where the hit was made.
const (
	HitValueValid  = 1 << 0
	HitCodeBefore  = 1 << 1 // the code at ip-16..ip
	HitCodeFrom    = 1 << 2 // the code at ip..ip+16
	HitKernel      = 1 << 3 // made in kernel mode
	HitUserContext = 1 << 4 // UserIP
	HitInSyscall   = 1 << 5 // Syscall: the task came into the kernel by an instruction that makes one
	HitChildValid  = 1 << 6 // Child
	HitCodeFar     = 1 << 7 // the code at ip-64..ip-16
	HitCodePage    = 1 << 8 // of the nearer of these two that is not valid as a whole, the end: what is in the page of its last byte
)

// Hit is one payload. Slices alias it.
type Hit struct {
	Slot    uint32
	Flags   uint32
	Addr    uint64
	Value   uint64 // valid with HitValueValid
	UserIP  uint64 // valid with HitUserContext
	Syscall uint64 // valid with HitInSyscall
	Comm    []byte // HitCommSize bytes, NUL-padded
	Code    []byte // the code from ip-16 to ip+16: each half valid with HitCodeBefore, HitCodeFrom
	Child   uint64 // valid with HitChildValid
	Far     []byte // HitFarSize bytes, the code from ip-64 to ip-16: valid with HitCodeFar
}

// Before is the code that ends at ip, in the two parts that the payload has of it: what ends at ip-16, and from there on.
func (h *Hit) Before(ip uint64) (far, near []byte) {
	near = h.Code[:HitCodeHalf]
	if h.Flags&HitCodeBefore == 0 {
		return nil, h.inPage(near, ip)
	}
	if h.Flags&HitCodeFar == 0 {
		return h.inPage(h.Far, ip-HitCodeHalf), near
	}
	return h.Far, near
}

// inPage is the end of the code that ends at the address end: as much as is in the last page, if that was read.
func (h *Hit) inPage(code []byte, end uint64) []byte {
	n := end % HitPage
	if h.Flags&HitCodePage == 0 || n >= uint64(len(code)) {
		return nil
	}
	return code[uint64(len(code))-n:]
}

// ParseHit reads a payload. The error is an *Error if it is shorter than any version's.
func ParseHit(b []byte) (Hit, error) {
	if len(b) < hitFirst {
		return Hit{}, &Error{Record: RecordSample, Field: "hit", Needed: hitFirst, Available: uint64(len(b))}
	}
	h := Hit{
		Slot:    binary.LittleEndian.Uint32(b[HitSlotOff:]),
		Flags:   binary.LittleEndian.Uint32(b[HitFlagsOff:]),
		Addr:    binary.LittleEndian.Uint64(b[HitAddrOff:]),
		Value:   binary.LittleEndian.Uint64(b[HitValueOff:]),
		UserIP:  binary.LittleEndian.Uint64(b[HitUserIPOff:]),
		Syscall: binary.LittleEndian.Uint64(b[HitSyscallOff:]),
		Comm:    b[HitCommOff : HitCommOff+HitCommSize : HitCommOff+HitCommSize],
		Code:    b[HitCodeOff : HitCodeOff+2*HitCodeHalf : HitCodeOff+2*HitCodeHalf],
	}
	if len(b) < HitFarOff {
		h.Flags &^= HitChildValid
	} else {
		h.Child = binary.LittleEndian.Uint64(b[HitChildOff:])
	}
	if len(b) < HitSize {
		h.Flags &^= HitCodeFar
	} else {
		h.Far = b[HitFarOff:HitSize:HitSize]
	}
	return h, nil
}
