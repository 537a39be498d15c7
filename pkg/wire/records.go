// Package wire is the stream between the stages of xw: a sequence of MessagePack arrays, each a kind followed by that
// kind's fields. FORMAT.md describes it for users and is checked against the table in this package.
package wire

// Version is the version of the stream format, the second element of every header. Formats only grow: fields are
// appended, kinds are added, and a reader takes what it knows.
const Version = 1

// Names of the streams, the third element of the header.
const (
	Raw     = "raw"     // xw-open to xw-decode: ring bytes verbatim
	Events  = "events"  // xw-decode onwards: one record per event
	Control = "control" // xw-rebind to xw-open: commands
)

// Opt is an unsigned integer that may be absent (nil on the wire).
type Opt struct {
	V  uint64
	OK bool
}

// Some returns a present Opt.
func Some(v uint64) Opt { return Opt{V: v, OK: true} }

// Record is one array of a stream. The concrete types are the structs of this file, always as pointers.
type Record interface {
	// Kind is the record's first element.
	Kind() string
	// visit hands every field after the kind to v in wire order.
	visit(v visitor)
}

// visitor walks the fields of one record: to encode, decode, print or parse them. One visit method per record serves
// all of them, so they cannot disagree about order or type.
type visitor interface {
	u64(*uint64)
	u32(*uint32)
	opt(*Opt)
	boolean(*bool)
	str(*string)
	// bin is nil on the wire when the slice is nil and the field may be nil.
	bin(*[]byte)
	// u64s is nil on the wire when the slice is nil.
	u64s(*[]uint64)
	// doc is a map: a *Session or an *EndInfo.
	doc(any)
}

// Header opens every stream: ["xw", version, stream, {session}].
type Header struct {
	Version uint64
	Stream  string
	Session Session
}

// Session is what a reader has to know before the first record. The keys are the msgpack tags.
type Session struct {
	Target       Target   `msgpack:"target" json:"target"`
	Scope        string   `msgpack:"scope" json:"scope"`               // cpu, inherit or thread
	ScopeReason  string   `msgpack:"scope_reason" json:"scope_reason"` // why that scope was chosen
	Values       string   `msgpack:"values" json:"values"`             // bpf or off
	ValuesReason string   `msgpack:"values_reason" json:"values_reason"`
	Kernel       string   `msgpack:"kernel" json:"kernel"` // on or off: whether hits made by the kernel are seen
	KernelReason string   `msgpack:"kernel_reason" json:"kernel_reason"`
	StartNS      uint64   `msgpack:"start_ns" json:"start_ns"`       // CLOCK_MONOTONIC when all watchpoints were armed
	RealtimeNS   uint64   `msgpack:"realtime_ns" json:"realtime_ns"` // CLOCK_REALTIME at start_ns
	BootID       string   `msgpack:"boot_id" json:"boot_id"`         // /proc/sys/kernel/random/boot_id of the machine
	Threads      uint64   `msgpack:"threads" json:"threads"`         // threads of the target at attach
	Slots        uint64   `msgpack:"slots" json:"slots"`             // hardware slots in use per thread or CPU
	Regs         []string `msgpack:"regs" json:"regs"`               // names of the u64 words in a sample's regs; empty if none are taken
	Callchain    bool     `msgpack:"callchain" json:"callchain"`
	LatencyNS    uint64   `msgpack:"latency_ns" json:"latency_ns"`
	RingSize     uint64   `msgpack:"ring_size" json:"ring_size"` // data bytes of each ring
	Watches      []Watch  `msgpack:"watches" json:"watches"`
	SampleFields []string `msgpack:"sample_fields" json:"sample_fields"` // names of a sample's fields after the kind
	Notes        []string `msgpack:"notes" json:"notes"`                 // what a reader must know and that is no gap
}

// Target is the watched process as it was at attach.
type Target struct {
	PID  uint64   `msgpack:"pid" json:"pid"`
	Exe  string   `msgpack:"exe" json:"exe"` // path as the target's mount namespace has it
	Comm string   `msgpack:"comm" json:"comm"`
	Argv []string `msgpack:"argv" json:"argv"`
	Bits uint64   `msgpack:"bits" json:"bits"`     // 64, or 32 for a 32-bit process
	NSID uint64   `msgpack:"ns_pid" json:"ns_pid"` // pid in the target's innermost pid namespace
}

// UserEnd is one past the highest address that a process with pointers of so many bits can have: TASK_SIZE_MAX of
// arch/x86/include/asm/page_64_types.h, without the mappings beyond it that five levels of page tables allow.
func UserEnd(bits uint64) uint64 {
	if bits == 32 {
		return 1 << 32
	}
	return 1<<47 - 4096
}

// Watch is one thing to watch; its index in Session.Watches is its id in every record.
type Watch struct {
	ID     uint64 `msgpack:"id" json:"id"`
	Name   string `msgpack:"name" json:"name"`
	Place  string `msgpack:"place" json:"place"`   // as resolved, for example prog!counter+0x8
	Addr   Opt    `msgpack:"addr" json:"addr"`     // first byte armed at the start; absent when unbound
	Len    uint64 `msgpack:"len" json:"len"`       // bytes, 1 for an x watch
	Access string `msgpack:"access" json:"access"` // w, rw, r or x
	Role   string `msgpack:"role" json:"role"`     // plain, header, pointer or leaf
	Chain  Opt    `msgpack:"chain" json:"chain"`   // index of the chain this level belongs to
	Parent Opt    `msgpack:"parent" json:"parent"` // id of the watch whose value this one hangs on
	Offset int64  `msgpack:"offset" json:"offset"` // bytes added to the parent's value
	Slots  []Slot `msgpack:"slots" json:"slots"`   // the hardware watchpoints that cover it
}

// Slot is one hardware watchpoint of a watch.
type Slot struct {
	Addr uint64 `msgpack:"addr" json:"addr"`
	Len  uint64 `msgpack:"len" json:"len"`
}

// Chunk carries whole perf records, verbatim, from the ring of one CPU; at most MaxChunk bytes.
type Chunk struct {
	CPU uint32
	Bin []byte
}

// Source says what the perf events with the given ids are, and so how their records are laid out. Raw streams only.
type Source struct {
	Role       string // output (BPF output), breakpoint (the watchpoint's own samples) or sideband (task records)
	Watch      Opt    // for breakpoint
	Slot       Opt    // index in the watch's slots, for breakpoint
	SampleType uint64 // perf_event_attr.sample_type; sample_id_all is always set
	RegsUser   uint64 // perf_event_attr.sample_regs_user
	RegsIntr   uint64 // perf_event_attr.sample_regs_intr
	IDs        []byte // u64 little-endian each, PERF_EVENT_IOC_ID
}

// Round says that T was read before the first ring was touched and that all rings have since been drained.
type Round struct{ T uint64 }

// Map is a mapping that the target had at attach.
type Map struct {
	PID     uint32
	Start   uint64 // first address
	End     uint64 // one past the last
	Offset  uint64 // bytes into the file
	Path    string // as in /proc/PID/maps, without the " (deleted)" mark
	BuildID []byte // nil if the file has none or could not be read
	Prot    uint32 // PROT_READ 1, PROT_WRITE 2, PROT_EXEC 4
}

// Thread is a thread that the target had at attach.
type Thread struct {
	PID   uint32
	TID   uint32
	Birth uint64 // ns of CLOCK_MONOTONIC, to the clock tick of /proc
	Comm  string
}

// Bound answers a bind, unbind or read, and announces the first binding of a chain's level.
type Bound struct {
	Time       uint64 // after the last ioctl
	Watch      uint32
	Generation uint64
	Addr       Opt    // absent when the level is unbound
	Errno      uint32 // 0, or why the kernel refused
	Value      Opt    // what the slot held when read after arming
	Start      uint64 // before the first ioctl
}

// ControlRecord is a command that was refused.
type ControlRecord struct {
	Time   uint64
	Reason string
	Bin    []byte // the command's bytes, cut to 256
}

// Counts are the totals of one watch, written once before the end.
type Counts struct {
	Time      uint64
	Watch     uint32
	Counted   uint64 // hits that the kernel counted for the target
	Emitted   uint64 // records of hits that went into the rings
	Lost      uint64 // records of hits that the rings had no room for
	AfterStop uint64 // hits after the session's last delivered one, before the watches were off
	Foreign   uint64 // hits of other processes, not in Counted
	Missed    uint64 // hits that the kernel counted and the BPF program was not run for
}

// Pause is an interval in which a watch was off on purpose.
type Pause struct {
	Watch uint32
	From  uint64
	To    uint64
}

// Check is what a slot held while no hit came: its bytes read between two equal counts. One is taken when the session
// begins and one before it ends.
type Check struct {
	Time  uint64 // between the two counts
	Watch uint32
	Addr  uint64 // of the slot
	Hits  Opt    // the slot's hits until then as the kernel counted them; absent if hits came whenever it was tried
	Value Opt    // absent if the bytes could not be read, or Hits is
}

// Gap is something that xw-open knows it did not see.
type Gap struct {
	Time   uint64
	Reason string // the gap's kind in reports, for example unwatched_task
	Watch  Opt
	TID    Opt
	Count  Opt
	From   Opt
	To     Opt
	Detail string
}

// Note is something a reader must know that was learned after the header and that is no gap.
type Note struct {
	Time uint64
	Text string
}

// End is the last record of a complete stream.
type End struct{ Info EndInfo }

// EndInfo is the map of the end record.
type EndInfo struct {
	StopReason  string `msgpack:"stop_reason" json:"stop_reason"`
	Error       string `msgpack:"error" json:"error"` // cause, for stop_reason error
	EndNS       uint64 `msgpack:"end_ns" json:"end_ns"`
	ElapsedNS   uint64 `msgpack:"elapsed_ns" json:"elapsed_ns"`     // from start_ns until the watches were off
	ThreadsSeen uint64 `msgpack:"threads_seen" json:"threads_seen"` // distinct tasks, those at attach and those born later
	Child       string `msgpack:"child" json:"child"`               // exit status of -- CMD: "exit 3", "signal SIGKILL", "running"; else empty
}

// Sample is one hit of one hardware watchpoint.
type Sample struct {
	Time       uint64
	CPU        uint32
	PID        uint32
	TID        uint32
	Watch      uint32
	Generation uint64 // of the binding; 1 for a plain watch, 0 if the binding is unknown
	Addr       uint64 // armed when the hit came
	IP         uint64 // as the CPU reported it
	Origin     uint32 // 0 user, 1 kernel
	Value      Opt    // the watched bytes as a little-endian integer
	Regs       []byte // 16 u64 little-endian in the order of the header's regs
	Callchain  []uint64
	UserIP     Opt // where the process was in user mode, for a hit made by the kernel
	Syscall    Opt // number of the system call that a hit made by the kernel came in
	Child      Opt // for a hit of the slot of a pointer to a leaf: the bytes where the new pointer leads
}

// Lost says that n records found no room in the ring of a CPU.
type Lost struct {
	Time uint64
	CPU  uint32
	N    uint64
}

// Throttle says that the kernel stopped (On) or resumed sampling.
type Throttle struct {
	Time  uint64
	CPU   uint32
	Watch Opt
	On    bool
}

// Malformed is a record that could not be decoded.
type Malformed struct {
	Offset    uint64 // of the record in the raw stream, bytes
	Needed    uint64
	Available uint64
	Reason    string
	Bin       []byte // the record's bytes, cut to 256
}

// Other is a perf record of a type that xw has no use for.
type Other struct {
	Type uint32
	Size uint32
}

// Fork is the birth of a thread (PID = PPID) or of a process.
type Fork struct {
	Time uint64
	PID  uint32
	PPID uint32
	TID  uint32
	PTID uint32
}

// Exit is the end of a thread.
type Exit struct {
	Time uint64
	PID  uint32
	TID  uint32
}

// Exec is a new program in the target.
type Exec struct {
	Time uint64
	PID  uint32
	TID  uint32
	Comm string
}

// Comm is a thread's name: at attach, when it changes, and when a hit shows it for the first time.
type Comm struct {
	Time uint64
	PID  uint32
	TID  uint32
	Comm string
}

// Mmap is a mapping of the target: those at attach (Time = start_ns) and those made since.
type Mmap struct {
	Time    uint64
	PID     uint32
	TID     uint32
	Start   uint64
	Len     uint64
	Offset  uint64
	Prot    uint32
	Flags   uint32
	Path    string
	BuildID []byte
}

// Code is the code around an ip, as it was at a hit; once for each distinct content. In a raw stream it was
// read from the process when the first hit there was seen.
type Code struct {
	IP    uint64
	Start uint64 // address of Bin's first byte
	Bin   []byte
}

// Rebind says that a level of a chain was moved.
type Rebind struct {
	Time       uint64
	Watch      uint32
	Generation uint64
	Old        Opt
	New        Opt
	CauseTime  uint64 // time of the sample that showed the new pointer
}

// Late counts records that came out of a ring after a round that should have held them.
type Late struct {
	CPU uint32
	N   uint64
}

// Bind asks xw-open to arm a level of a chain at an address.
type Bind struct {
	Watch      uint32
	Generation uint64
	Addr       uint64
	CauseTime  uint64
}

// Unbind asks xw-open to disarm a level of a chain.
type Unbind struct {
	Watch      uint32
	Generation uint64
	CauseTime  uint64
}

// Read asks xw-open for the value of a level's slot.
type Read struct {
	Watch      uint32
	Generation uint64
}

// Unknown is a record of a kind that this version does not know; Reader.Raw has its bytes.
type Unknown struct{ Name string }
