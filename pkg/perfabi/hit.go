package perfabi

import "encoding/binary"

// Offsets in the payload that xw's BPF program puts into the raw area (PERF_SAMPLE_RAW) of the samples that it writes.
// Fields are only ever appended, so a reader takes longer payloads, and shorter ones down to HitSizeBare.
const (
	HitSlotOff    = 0  // u32: index in the slots of the session's watches, laid end to end
	HitFlagsOff   = 4  // u32: Hit flags
	HitAddrOff    = 8  // u64: address armed when the hit came
	HitValueOff   = 16 // u64: the slot's bytes, zero-extended
	HitUserIPOff  = 24 // u64: where the task was in user mode
	HitSyscallOff = 32 // u64: number of the system call the task was in
	HitCommOff    = 40 // HitCommSize bytes: name of the thread, NUL-padded
	HitChildOff   = 56 // u64: the bytes that a pointer slot's new value leads to, zero-extended
	HitCodeAtOff  = 64 // u32: where in the code the bytes begin that could be read
	HitCodeLenOff = 68 // u32: how many those are; 0 for none
	HitCodeOff    = 72 // HitCodeSize bytes: the code from ip-HitCodeBack on

	HitSizeBare = HitCodeOff + HitCodeSize // bytes of a payload without registers

	HitRegsOff = HitSizeBare // GeneralBytes: the general registers, in the order of the bits of MaskGeneral

	HitSize = HitRegsOff + GeneralBytes // bytes of the whole payload

	HitCommSize  = 16 // TASK_COMM_LEN
	HitCodeBack  = 64 // bytes of code before ip: with so many nearly every instruction that ends at ip is told apart
	HitCodeAhead = 16 // bytes of code from ip on, the longest instruction and one more
	HitCodeSize  = HitCodeBack + HitCodeAhead
)

// Flags of a payload: which of its fields are valid, and where the hit was made.
const (
	HitValueValid  = 1 << 0
	HitRegsValid   = 1 << 1
	HitChildValid  = 1 << 2
	HitKernel      = 1 << 3 // made in kernel mode
	HitUserContext = 1 << 4 // UserIP
	HitInSyscall   = 1 << 5 // Syscall: the task came into the kernel by an instruction that makes one
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
	Child   uint64 // valid with HitChildValid
	CodeAt  int    // Code begins at ip-HitCodeBack+CodeAt
	Code    []byte // the code around ip, as much of it as could be read
	Regs    Words  // valid with HitRegsValid; nil if not taken
}

// Parse reads a payload. The error is an *Error if it is shorter than any version's, or says that it has more code than
// there is room for; h is then as it was.
func (h *Hit) Parse(b []byte) error {
	if len(b) < HitSizeBare {
		return &Error{Record: RecordSample, Field: "hit", Needed: HitSizeBare, Available: uint64(len(b))}
	}
	at, n := uint64(binary.LittleEndian.Uint32(b[HitCodeAtOff:])), uint64(binary.LittleEndian.Uint32(b[HitCodeLenOff:]))
	if at+n > HitCodeSize {
		return &Error{Record: RecordSample, Field: "hit code", Needed: at + n, Available: HitCodeSize}
	}
	h.Slot = binary.LittleEndian.Uint32(b[HitSlotOff:])
	h.Flags = binary.LittleEndian.Uint32(b[HitFlagsOff:])
	h.Addr = binary.LittleEndian.Uint64(b[HitAddrOff:])
	h.Value = binary.LittleEndian.Uint64(b[HitValueOff:])
	h.UserIP = binary.LittleEndian.Uint64(b[HitUserIPOff:])
	h.Syscall = binary.LittleEndian.Uint64(b[HitSyscallOff:])
	h.Comm = b[HitCommOff : HitCommOff+HitCommSize : HitCommOff+HitCommSize]
	h.Child = binary.LittleEndian.Uint64(b[HitChildOff:])
	h.CodeAt, h.Code = int(at), b[HitCodeOff+at:HitCodeOff+at+n:HitCodeOff+at+n]
	h.Regs = nil
	if h.Flags&HitRegsValid != 0 && len(b) >= HitSize {
		h.Regs = b[HitRegsOff:HitSize:HitSize]
	}
	return nil
}
