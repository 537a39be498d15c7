// Package report makes a report of an events stream: a Model that grows with every record, the Report that can be taken
// from it at any time, and renderers that write a Report.
//
// The Model's memory grows with the distinct places that made hits, not with the hits.
package report

// Schema names the form of Report as JSON. Keys are only ever added to it.
const Schema = "xw.report/1"

// MaxEntries is how many entries a list of threads, bindings or gaps has; those beyond are folded into one more.
const MaxEntries = 10000

// Report is what is known about a session at one moment. As JSON every key is present, what is unknown is null.
// Times are ns of CLOCK_MONOTONIC.
type Report struct {
	Schema   string  `json:"schema"`
	Complete bool    `json:"complete"` // every hit that the kernel counted is in the report, and nothing else is missing
	Gaps     []Gap   `json:"gaps"`
	Notes    []Text  `json:"notes"` // what a reader must know and that is no gap
	Target   Target  `json:"target"`
	Session  Session `json:"session"`
	Watches  []Watch `json:"watches"`
	Chains   []Chain `json:"chains"`

	Running bool `json:"-"` // the stream has not ended yet
}

// Gap is something that the report does not cover.
type Gap struct {
	Kind   Text `json:"kind"`
	Count  Num  `json:"count"` // hits or records missing; null if their number is unknown
	Watch  Num  `json:"watch"` // id; null if the gap concerns all
	Detail Text `json:"detail"`
	FromNS Num  `json:"from_ns"`
	ToNS   Num  `json:"to_ns"`
	TID    Num  `json:"tid"` // the thread concerned
}

// Target is the watched process as it was at attach.
type Target struct {
	PID   Num    `json:"pid"`
	Exe   Text   `json:"exe"`
	Comm  Text   `json:"comm"`
	Argv  []Text `json:"argv"`
	Bits  Num    `json:"bits"`   // 64 or 32
	NSPid Num    `json:"ns_pid"` // pid in the target's innermost pid namespace
}

// Session is how and for how long was watched.
type Session struct {
	Scope           Text `json:"scope"`
	Values          Text `json:"values"`
	Kernel          Text `json:"kernel"`
	StartNS         Num  `json:"start_ns"`
	ElapsedNS       Num  `json:"elapsed_ns"`
	StopReason      Text `json:"stop_reason"`
	ThreadsAtAttach Num  `json:"threads_at_attach"`
	ThreadsSeen     Num  `json:"threads_seen"`
	Slots           Num  `json:"slots"`
	RealtimeNS      Num  `json:"realtime_ns"` // CLOCK_REALTIME at start_ns
	Error           Text `json:"error"`       // cause, if the stop reason is error
	Child           Text `json:"child"`       // exit status of the command that was started
	ScopeReason     Text `json:"scope_reason"`
	ValuesReason    Text `json:"values_reason"`
	KernelReason    Text `json:"kernel_reason"`
	Parts           Num  `json:"parts"` // streams that were added up
}

// Watch is one watched range of memory and who accessed it.
type Watch struct {
	ID     uint64 `json:"id"`
	Name   Text   `json:"name"`
	Place  Text   `json:"place"`
	Addr   Hex    `json:"addr"`
	Len    uint64 `json:"len"`
	Access Text   `json:"access"`
	Role   Text   `json:"role"`
	Slots  []Slot `json:"slots"`

	Hits      uint64 `json:"hits"`       // what the hardware reported
	Accesses  Num    `json:"accesses"`   // executions of instructions; null where the registers do not decide it
	Counted   Num    `json:"counted"`    // hits that the kernel counted for the target
	Lost      Num    `json:"lost"`       // hits that found no room in a ring
	AfterStop Num    `json:"after_stop"` // hits after the last delivered one, before the watch was off

	FirstNS             Num           `json:"first_ns"`
	LastNS              Num           `json:"last_ns"`
	Threads             []ThreadCount `json:"threads"` // most hits first
	LastValue           Hex           `json:"last_value"`
	DistinctValues      Num           `json:"distinct_values"`       // null if no hit carried a value
	DistinctValuesExact bool          `json:"distinct_values_exact"` // false: distinct_values is a floor
	Sites               []Site        `json:"sites"`                 // most hits first

	Values         []ValueCount `json:"values"`          // the most frequent ones, at most 64
	Filtered       uint64       `json:"filtered"`        // hits of sites whose operation was not asked for; sites lists them all the same
	Silent         Num          `json:"silent"`          // writes that left the value as it was
	HandoffsThread uint64       `json:"handoffs_thread"` // hits whose predecessor came from another thread
	HandoffsCPU    uint64       `json:"handoffs_cpu"`    // hits whose predecessor came from another CPU
	// ChangedWithoutHit tells whether something that makes no hit changed the bytes; null if that is not known.
	ChangedWithoutHit *bool `json:"changed_without_hit"`
	Parent            Num   `json:"parent"`  // id of the watch whose value this one hangs on
	Offset            int64 `json:"offset"`  // bytes added to the parent's value
	Emitted           Num   `json:"emitted"` // records of hits that went into the rings
	Foreign           Num   `json:"foreign"` // hits of other processes, which counted leaves out
	Missed            Num   `json:"missed"`  // counted hits for which the BPF program was not run

	PausedNS  Num   `json:"paused_ns"`  // how long the watch was off to keep to a rate
	DutyCycle Ratio `json:"duty_cycle"` // part of the time in which it was on

	threads uint64  // distinct threads, the folded ones included
	op      string  // the operation that was asked for, "" for any
	lines   []*Site // sites as they are shown to people: one for each instruction
}

// Slot is one hardware watchpoint of a watch.
type Slot struct {
	Addr Hex    `json:"addr"`
	Len  uint64 `json:"len"`
}

// ThreadCount is a thread and its hits on one watch. Beyond MaxEntries threads the last entry has no tid: it stands for
// Folded threads.
type ThreadCount struct {
	TID     Num    `json:"tid"`
	Comm    Text   `json:"comm"`
	Hits    uint64 `json:"hits"`
	BirthNS Num    `json:"birth_ns"`
	Folded  Num    `json:"folded"`
}

// ValueCount is a value of the watched bytes and the number of hits that left it.
type ValueCount struct {
	Slot  uint64 `json:"slot"` // index in slots
	Value Hex    `json:"value"`
	Hits  uint64 `json:"hits"`
}

// Site is a place in the program or kernel that made hits.
type Site struct {
	IP       Hex  `json:"ip"`        // as the CPU reported it
	InsnAddr Hex  `json:"insn_addr"` // of the instruction that made the access
	Insn     Text `json:"insn"`
	Op       Text `json:"op"` // read, write, readwrite, execute or unknown
	Place
	Origin    uint64 `json:"origin"` // 0 user, 1 kernel
	Hits      uint64 `json:"hits"`
	Accesses  Num    `json:"accesses"`
	Threads   uint64 `json:"threads"` // distinct ones
	FirstNS   Num    `json:"first_ns"`
	LastNS    Num    `json:"last_ns"`
	LastValue Hex    `json:"last_value"`
	Regs      *Regs  `json:"regs"` // at the last hit

	LastOldValue   Hex         `json:"last_old_value"` // what stood there before the last hit, if that is known
	LastLoaded     Hex         `json:"last_loaded"`    // derived from registers and instruction: what stood there before
	LastStored     Hex         `json:"last_stored"`    // derived likewise: what the instruction left there
	InsnReason     Text        `json:"insn_reason"`    // why insn is null
	Comms          []CommCount `json:"comms"`          // names of the threads, most hits first
	Silent         Num         `json:"silent"`
	HandoffsThread uint64      `json:"handoffs_thread"`
	HandoffsCPU    uint64      `json:"handoffs_cpu"`
	Syscall        Text        `json:"syscall"`    // that a kernel hit came in
	SyscallNR      Num         `json:"syscall_nr"` // its number
	User           *Caller     `json:"user"`       // where the process was, for a kernel hit
	Stacks         []Stack     `json:"callers"`    // by frame pointers; null if none were taken

	AccessBytes Num `json:"access_bytes"` // watched bytes that each access of several iterations touched; null if that differs
	LastOf      Hex `json:"last_of"`      // ip of the site whose instruction has its last iterations reported here

	key         siteKey
	filtered    bool
	before      Hex    // what stood there before the last access
	least, most uint64 // watched bytes that an access of several iterations touched; 0 if unknown
}

// Place is an address in terms of the program's source.
type Place struct {
	Func         Text      `json:"func"`   // whose code this is after inlining
	Offset       Num       `json:"offset"` // bytes from the start of func
	Module       Text      `json:"module"`
	ModuleOffset Hex       `json:"module_offset"` // in the module's file, as nm prints it
	File         Text      `json:"file"`          // of the instruction itself, in inlined[0] if there is one
	Line         Num       `json:"line"`
	Inlined      []Inlined `json:"inlined"` // innermost first
	JIT          bool      `json:"jit"`     // func was made by a JIT compiler and has been at this address at some time
	Note         Text      `json:"note"`    // why less is known than could be

	home bool // module is the program itself
}

// Inlined is a function that the compiler expanded where it was called.
type Inlined struct {
	Func     Text `json:"func"`
	CallFile Text `json:"call_file"`
	CallLine Num  `json:"call_line"`
}

// CommCount is a thread name and the hits made under it.
type CommCount struct {
	Comm Text   `json:"comm"`
	Hits uint64 `json:"hits"`
}

// Caller is an address of the program and what stands there.
type Caller struct {
	IP Hex `json:"ip"`
	Place
}

// Stack is a chain of callers, innermost first, without the place of the hit. Other tells that it stands for all stacks
// that were too many to be kept.
type Stack struct {
	Hits   uint64   `json:"hits"`
	Frames []Caller `json:"frames"`
	Other  bool     `json:"other"`
}

// Chain is a watched chain of pointers.
type Chain struct {
	Name     Text      `json:"name"`
	Levels   []uint64  `json:"levels"`   // watch ids, top down
	Rebinds  uint64    `json:"rebinds"`  // of the leaf
	BlindNS  uint64    `json:"blind_ns"` // time from each pointer write to the leaf's bound
	Bindings []Binding `json:"bindings"`

	LongestBlindNS uint64 `json:"longest_blind_ns"`
}

// Binding is an interval in which a level of a chain was armed at one address (null: at none). Beyond MaxEntries the
// last entry of a chain stands for Folded bindings.
type Binding struct {
	Watch      uint64 `json:"watch"`
	Generation Num    `json:"generation"`
	Addr       Hex    `json:"addr"`
	FromNS     Num    `json:"from_ns"`
	ToNS       Num    `json:"to_ns"` // null: until the end
	Hits       uint64 `json:"hits"`
	Errno      Num    `json:"errno"` // why the kernel refused the address; null if it did not
	Folded     Num    `json:"folded"`
	Value      Hex    `json:"value"` // the bytes when it was armed; null if they could not be read
}
