// Package watch sets hardware watchpoints on a live process without stopping it, drains what they record, moves and
// counts them. It is the only caller of perf_event_open(2) and bpf(2), and needs Linux on x86-64.
package watch

// MaxSlots is the number of hardware watchpoints that an x86 thread has.
const MaxSlots = 4

// Slot is one hardware watchpoint to open.
type Slot struct {
	Watch  int    // index of the watch it belongs to
	Index  int    // index among that watch's slots
	Addr   uint64 // aligned to Len; 0 while the slot is unbound
	Len    uint64 // 1, 2, 4 or 8 bytes; without meaning for x
	Access string // w, rw, r or x
	Wake   bool   // a hit is to be drained at once: a slot that holds a pointer
	Child  *Child // for the slot of a pointer to a leaf
}

// reads reports whether reading the slot's bytes is a hit.
func (s Slot) reads() bool { return s.Access != "w" && s.Access != "x" }

// Child is what a hit of a pointer's slot also reads: the bytes where the pointer leads.
type Child struct {
	Offset int64 // added to the pointer
	Len    uint64
	Access string // of the leaf
}

// Config says what to open and how.
type Config struct {
	Slots       []Slot
	Scope       string // auto, cpu, inherit or thread
	Values      string // auto, bpf or off
	Kernel      string // auto, on or off
	Regs        bool
	Callchain   bool
	Chains      bool // some slots move: scope cpu is worth what it costs others
	LaterReads  bool // reading the bytes of some slot that Add is going to bring is a hit
	RingSize    int  // data bytes of each ring, a power of two of pages; 0 chooses
	MaxSamplers int  // most watchpoints (slots x threads) to open; 0 chooses
}

// Info is what was decided on the way.
type Info struct {
	Scope, ScopeReason   string
	Values, ValuesReason string
	Kernel, KernelReason string
	Threads              int // threads of the target at attach
	RingSize             int
	Notes                []string
}

// Source describes perf events by their ids; see wire.Source.
type Source struct {
	Role       string // output, breakpoint or sideband
	Slot       int    // index in Config.Slots, for breakpoint
	SampleType uint64
	RegsUser   uint64
	RegsIntr   uint64
	IDs        []uint64
}

// Totals is what was counted for one slot from its opening on.
type Totals struct {
	Counted   uint64 // hits that the kernel counted for the target while the session was live
	Emitted   uint64 // records of those that the rings took
	Lost      uint64 // records that the rings had no room for, up to the delivery of what Limit allows
	CutLost   uint64 // and from then on
	Stopped   uint64 // hits of the target after the session was stopped
	Foreign   uint64 // hits of other processes
	Missed    uint64 // hits in Counted for which the BPF program was not run
	LostKnown bool   // Lost is exact; false where the kernel does not tell (before Linux 6.0)
}

// Gap is a task that lived unwatched, or another hole in what was seen.
type Gap struct {
	Kind     string // as in reports; "" for unwatched_task
	Slot     int    // for blind
	TID      int
	From, To uint64 // ns of CLOCK_MONOTONIC; 0 unknown
	Detail   string
}
