// Package insn names the instruction that made an access. The CPU reports a data watchpoint after the instruction, so
// the ip of a hit is the one that follows: the instruction is found among those that end there, by the code around ip
// and the registers as they were sampled. What cannot be told apart is said to be ambiguous or unknown, never guessed.
package insn

import "xw/pkg/wire"

// What an instruction does to the watched bytes.
const (
	Read      = "read"
	Write     = "write"
	ReadWrite = "readwrite"
	Execute   = "execute"
	Unknown   = "unknown"
)

// Status is how well the instruction is known.
type Status string

// Statuses.
const (
	// Exact: it is this instruction and no other.
	Exact Status = "exact"
	// Ambiguous: several could have made the access, and nothing tells which.
	Ambiguous Status = "ambiguous"
	// NotFound: none that could have made the access is known.
	NotFound Status = "unknown"
)

// Input is one hit, with what is known of the code and of the thread.
type Input struct {
	IP     uint64 // as the CPU reported it
	Bits   int    // 64, or 32 for code of a 32-bit process
	Kernel bool   // the hit was made by the kernel: its code and registers, always 64-bit
	// Regs are the general registers after the instruction, in the order rax rbx rcx rdx rsi rdi rbp rsp r8..r15; nil
	// when they were not sampled.
	Regs *[16]uint64

	Access string // w, rw, r or x, as the watch has it
	Addr   uint64 // first byte of the watchpoint that fired
	Len    uint64 // its bytes
	// Value is what those bytes held after the access, when it was read at the hit.
	Value wire.Opt

	Code      []byte // bytes around IP as they stood at the hit; may be nil
	CodeStart uint64 // address of Code[0]
	// FuncStart is the address of the function that IP lies in, 0 when it is not known.
	FuncStart uint64
	// ReadCode reads code of the target from elsewhere, such as its file, and gives the number of bytes read from addr
	// on; nil if there is no such source. It is not used where it disagrees with Code.
	ReadCode func(addr uint64, p []byte) int
	// Stack reads a word of the thread's stack as it was at the hit; nil if it was not saved.
	Stack func(addr uint64) (v uint64, ok bool)
	// Symbol names addresses in the text; nil for absolute addresses.
	Symbol SymbolFunc
}

// Result is what is known of the instruction that made an access.
type Result struct {
	Status Status
	Reason string // why Status is not Exact; else empty
	Addr   uint64 // of the instruction; only if Exact
	Len    int    // bytes; only if Exact
	Text   string // Intel syntax; only if Exact
	// Op is what was done to the watched bytes. It can be known where the instruction is not, if all that it could have
	// been agree.
	Op  string
	Rep bool // a repeated string instruction: a hit is one iteration; only if Exact

	// Operand is the address of the memory operand that touched the watched bytes, Size its length in bytes. It is absent
	// where the address cannot be computed from the registers.
	Operand wire.Opt
	Size    uint64
	// Loaded is what the operand held before the access and Stored what it holds after, where the registers and the
	// instruction's immediates say so with certainty.
	Loaded wire.Opt
	Stored wire.Opt
	// Changes tells that the operand never holds after the access what it held before.
	Changes bool
}

// Within cuts a value of the operand, Loaded or Stored, down to the n bytes at addr. It is absent unless the operand
// covers them all.
func (r *Result) Within(v wire.Opt, addr, n uint64) wire.Opt {
	offset := addr - r.Operand.V
	if !v.OK || !r.Operand.OK || addr < r.Operand.V || offset > r.Size || n > r.Size-offset || r.Size > 8 {
		return wire.Opt{}
	}
	return wire.Some(truncate(v.V>>(8*offset), int(n)))
}

// Find tells the instruction that made an access.
func Find(in *Input) Result {
	f := newFinder(in)
	if in.Access == "x" {
		return f.executed()
	}
	return f.accessed()
}
