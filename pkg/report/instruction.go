package report

import "xw/pkg/wire"

// Operations of sites.
const (
	opRead      = "read"
	opWrite     = "write"
	opReadWrite = "readwrite"
	opExecute   = "execute"
	opUnknown   = "unknown"
)

// Namer names the instruction that made a hit.
type Namer interface {
	Name(h Hit) Instruction
}

// Hit is what is known about the last hit of a site.
type Hit struct {
	IP     uint64 // as the CPU reported it
	Addr   uint64 // armed at the hit
	Len    uint64 // of the slot that fired
	Access string // of the watch: w, rw, r or x
	Kernel bool
	Bits   uint64 // 64 or 32
	Value  wire.Opt
	Regs   *Regs  // nil if none were taken
	Start  uint64 // address of Code's first byte
	Code   []byte // around IP, as it was at a hit; nil if unknown
	Func   uint64 // where the function that holds IP starts; 0 if unknown
	Symbol func(addr uint64) string
}

// Instruction is the instruction that made a hit. Its zero value is one that is not known.
type Instruction struct {
	Addr    wire.Opt
	Text    string
	Op      string   // "" is unknown
	Repeats bool     // a rep string instruction
	Exact   bool     // no other instruction can have made the hit
	Reason  string   // why it is not known, or what was assumed
	Stored  wire.Opt // the bytes of the slot after the hit, if registers and instruction give them exactly
}
