// Package perfabi is the part of perf_event's user ABI that xw needs: constants, the layout of records and a
// bounds-checked decoder for them, and the payload that xw's BPF program puts into a sample. It makes no system calls
// and builds everywhere. The source followed is include/uapi/linux/perf_event.h of Linux 6.18 and perf_event_open(2);
// every constant names its C counterpart. All numbers are little-endian, as on x86-64.
package perfabi

// Event types, perf_event_attr.type.
const (
	TypeHardware   = 0 // PERF_TYPE_HARDWARE
	TypeSoftware   = 1 // PERF_TYPE_SOFTWARE
	TypeBreakpoint = 5 // PERF_TYPE_BREAKPOINT
)

// Software events, perf_event_attr.config of TypeSoftware.
const (
	SWCPUClock = 0 // PERF_COUNT_SW_CPU_CLOCK
	SWDummy    = 9 // PERF_COUNT_SW_DUMMY
)

// Breakpoint accesses, perf_event_attr.bp_type (include/uapi/linux/hw_breakpoint.h).
const (
	BreakpointRead  = 1                                // HW_BREAKPOINT_R, refused by x86 on its own
	BreakpointWrite = 2                                // HW_BREAKPOINT_W
	BreakpointRW    = BreakpointRead | BreakpointWrite // HW_BREAKPOINT_RW
	BreakpointExec  = 4                                // HW_BREAKPOINT_X, of length sizeof(long)
)

// Bits of perf_event_attr's flag word, in the order of its bit fields.
const (
	AttrDisabled               = 1 << 0  // disabled
	AttrInherit                = 1 << 1  // inherit
	AttrPinned                 = 1 << 2  // pinned
	AttrExcludeUser            = 1 << 4  // exclude_user
	AttrExcludeKernel          = 1 << 5  // exclude_kernel
	AttrExcludeHV              = 1 << 6  // exclude_hv
	AttrMmap                   = 1 << 8  // mmap: records of executable mappings
	AttrComm                   = 1 << 9  // comm
	AttrTask                   = 1 << 13 // task: fork and exit records
	AttrWatermark              = 1 << 14 // watermark: wakeup_watermark instead of wakeup_events
	AttrMmapData               = 1 << 17 // mmap_data: records of the other mappings
	AttrSampleIDAll            = 1 << 18 // sample_id_all
	AttrExcludeCallchainKernel = 1 << 21 // exclude_callchain_kernel
	AttrExcludeCallchainUser   = 1 << 22 // exclude_callchain_user
	AttrMmap2                  = 1 << 23 // mmap2
	AttrCommExec               = 1 << 24 // comm_exec: MiscCommExec marks the comm record of an exec
	AttrUseClockID             = 1 << 25 // use_clockid
	AttrBuildID                = 1 << 34 // build_id: mmap2 records carry one where the file has it
	AttrInheritThread          = 1 << 35 // inherit_thread
	AttrRemoveOnExec           = 1 << 36 // remove_on_exec
)

// Fields of samples and of the trailers of other records, perf_event_attr.sample_type.
const (
	SampleIP           = 1 << 0  // PERF_SAMPLE_IP
	SampleTID          = 1 << 1  // PERF_SAMPLE_TID
	SampleTime         = 1 << 2  // PERF_SAMPLE_TIME
	SampleAddr         = 1 << 3  // PERF_SAMPLE_ADDR
	SampleRead         = 1 << 4  // PERF_SAMPLE_READ
	SampleCallchain    = 1 << 5  // PERF_SAMPLE_CALLCHAIN
	SampleID           = 1 << 6  // PERF_SAMPLE_ID
	SampleCPU          = 1 << 7  // PERF_SAMPLE_CPU
	SamplePeriod       = 1 << 8  // PERF_SAMPLE_PERIOD
	SampleStreamID     = 1 << 9  // PERF_SAMPLE_STREAM_ID
	SampleRaw          = 1 << 10 // PERF_SAMPLE_RAW
	SampleBranchStack  = 1 << 11 // PERF_SAMPLE_BRANCH_STACK, not decoded
	SampleRegsUser     = 1 << 12 // PERF_SAMPLE_REGS_USER
	SampleStackUser    = 1 << 13 // PERF_SAMPLE_STACK_USER, not decoded
	SampleWeight       = 1 << 14 // PERF_SAMPLE_WEIGHT, not decoded
	SampleDataSrc      = 1 << 15 // PERF_SAMPLE_DATA_SRC, not decoded
	SampleIdentifier   = 1 << 16 // PERF_SAMPLE_IDENTIFIER
	SampleTransaction  = 1 << 17 // PERF_SAMPLE_TRANSACTION, not decoded
	SampleRegsIntr     = 1 << 18 // PERF_SAMPLE_REGS_INTR
	SamplePhysAddr     = 1 << 19 // PERF_SAMPLE_PHYS_ADDR, not decoded
	SampleAux          = 1 << 20 // PERF_SAMPLE_AUX, not decoded
	SampleCgroup       = 1 << 21 // PERF_SAMPLE_CGROUP, not decoded
	SampleDataPageSize = 1 << 22 // PERF_SAMPLE_DATA_PAGE_SIZE, not decoded
	SampleCodePageSize = 1 << 23 // PERF_SAMPLE_CODE_PAGE_SIZE, not decoded
	SampleWeightStruct = 1 << 24 // PERF_SAMPLE_WEIGHT_STRUCT, not decoded
)

// Fields of a counter's value, perf_event_attr.read_format.
const (
	FormatTotalTimeEnabled = 1 << 0 // PERF_FORMAT_TOTAL_TIME_ENABLED
	FormatTotalTimeRunning = 1 << 1 // PERF_FORMAT_TOTAL_TIME_RUNNING
	FormatID               = 1 << 2 // PERF_FORMAT_ID
	FormatGroup            = 1 << 3 // PERF_FORMAT_GROUP
	FormatLost             = 1 << 4 // PERF_FORMAT_LOST, since Linux 6.0
)

// Types of records, perf_event_header.type.
const (
	RecordMmap        = 1  // PERF_RECORD_MMAP, not decoded
	RecordLost        = 2  // PERF_RECORD_LOST
	RecordComm        = 3  // PERF_RECORD_COMM
	RecordExit        = 4  // PERF_RECORD_EXIT
	RecordThrottle    = 5  // PERF_RECORD_THROTTLE
	RecordUnthrottle  = 6  // PERF_RECORD_UNTHROTTLE
	RecordFork        = 7  // PERF_RECORD_FORK
	RecordRead        = 8  // PERF_RECORD_READ, not decoded
	RecordSample      = 9  // PERF_RECORD_SAMPLE
	RecordMmap2       = 10 // PERF_RECORD_MMAP2
	RecordLostSamples = 13 // PERF_RECORD_LOST_SAMPLES
)

// Bits of perf_event_header.misc.
const (
	MiscCPUModeMask = 7       // PERF_RECORD_MISC_CPUMODE_MASK
	MiscKernel      = 1       // PERF_RECORD_MISC_KERNEL
	MiscUser        = 2       // PERF_RECORD_MISC_USER
	MiscMmapData    = 1 << 13 // PERF_RECORD_MISC_MMAP_DATA, of mmap2
	MiscCommExec    = 1 << 13 // PERF_RECORD_MISC_COMM_EXEC, of comm
	MiscMmapBuildID = 1 << 14 // PERF_RECORD_MISC_MMAP_BUILD_ID, of mmap2
)

// Marks between the parts of a call chain, enum perf_callchain_context. Every value from ContextMax up is a mark and
// no address.
const (
	ContextKernel = 1<<64 - 128  // PERF_CONTEXT_KERNEL
	ContextUser   = 1<<64 - 512  // PERF_CONTEXT_USER
	ContextMax    = 1<<64 - 4095 // PERF_CONTEXT_MAX
)

// Kinds of register sets in a sample, enum perf_sample_regs_abi.
const (
	RegsABINone = 0 // PERF_SAMPLE_REGS_ABI_NONE: no registers follow
	RegsABI32   = 1 // PERF_SAMPLE_REGS_ABI_32: of a 32-bit task, still one u64 a register
	RegsABI64   = 2 // PERF_SAMPLE_REGS_ABI_64
)
