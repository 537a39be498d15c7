package insn

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/arch/x86/x86asm"
)

// SymbolFunc names an address: the symbol that covers it and the address of that symbol. The name is "" where there is
// none.
type SymbolFunc func(addr uint64) (name string, base uint64)

// text is the instruction in Intel syntax, with the mnemonics and the order of operands of the GNU disassembler. Places
// whose address the instruction itself gives are named by symbol, or by their absolute address without one.
func (in *instr) text(symbol SymbolFunc) string {
	if in.Op == opUnnamed {
		return in.byteText()
	}
	name, args := in.mnemonic()
	var b strings.Builder
	if in.pre.lock {
		b.WriteString("lock ")
	}
	if in.isString() {
		b.WriteString(in.repeatName())
	}
	b.WriteString(name)
	sep := " "
	for i, arg := range args {
		if i == 1 && in.isMask(arg) {
			fmt.Fprintf(&b, "{%s}", registerName(arg.(x86asm.Reg)))
			if in.Zeroing {
				b.WriteString("{z}")
			}
			continue
		}
		b.WriteString(sep)
		b.WriteString(in.argText(i, arg, symbol))
		sep = ", "
	}
	return b.String()
}

// byteText stands for an instruction that has no name here.
func (in *instr) byteText() string {
	var b strings.Builder
	for i, v := range in.bytes {
		fmt.Fprintf(&b, "%s%#02x", map[bool]string{true: ".byte ", false: ", "}[i == 0], v)
	}
	return b.String()
}

func (in *instr) repeatName() string {
	compares := false
	switch in.Op {
	case x86asm.CMPSB, x86asm.CMPSW, x86asm.CMPSD, x86asm.CMPSQ,
		x86asm.SCASB, x86asm.SCASW, x86asm.SCASD, x86asm.SCASQ:
		compares = true
	}
	switch {
	case in.pre.repeat == 0xf2:
		return "repnz "
	case in.pre.repeat == 0xf3 && compares:
		return "repz "
	case in.pre.repeat == 0xf3:
		return "rep "
	}
	return ""
}

// isMask tells the mask of an EVEX instruction from an operand.
func (in *instr) isMask(arg x86asm.Arg) bool {
	r, ok := arg.(x86asm.Reg)
	if !ok || in.pre.vector != 0x62 {
		return false
	}
	number := in.bytes[in.pre.legacy+3] & 7
	return number != 0 && r == x86asm.K0+x86asm.Reg(number)
}

func (in *instr) argText(index int, arg x86asm.Arg, symbol SymbolFunc) string {
	switch a := arg.(type) {
	case x86asm.Reg:
		return registerName(a)
	case x86asm.Imm:
		if in.isShiftByOne() {
			return "1"
		}
		return hexText(truncate(uint64(a), in.immediateSize()))
	case x86asm.Rel:
		return place(truncate(in.next()+uint64(int64(a)), in.bits/8), symbol)
	case x86asm.Mem:
		return in.sizeName() + in.memText(a, symbol)
	}
	return ""
}

// isShiftByOne tells the shifts whose count is in the opcode.
func (in *instr) isShiftByOne() bool {
	opcode := in.bytes[in.pre.opcode]
	return in.pre.escape == 0 && (opcode == 0xd0 || opcode == 0xd1)
}

// immediateSize is the size that an immediate is extended to, in bytes.
func (in *instr) immediateSize() int {
	switch arg := in.Args[0].(type) {
	case x86asm.Reg:
		if _, size, _, ok := general(arg); ok {
			return size
		}
	case x86asm.Mem:
		return in.memSize()
	case x86asm.Imm:
		if in.Op == x86asm.PUSH {
			return in.stackWord()
		}
	}
	return 8
}

func (in *instr) memText(m x86asm.Mem, symbol SymbolFunc) string {
	segment := ""
	shown := in.isString() || in.Op == x86asm.XLATB
	if m.Segment != 0 && (shown || in.bits == 32 || m.Segment == x86asm.FS || m.Segment == x86asm.GS) {
		segment = registerName(m.Segment) + ":"
	}
	if addr, ok := in.absolute(m); ok {
		if segment != "" {
			symbol = nil
		}
		return segment + "[" + place(addr, symbol) + "]"
	}
	var b strings.Builder
	b.WriteString(segment + "[")
	plus := ""
	if m.Base != 0 {
		b.WriteString(registerName(m.Base))
		plus = "+"
	}
	if m.Index != 0 {
		b.WriteString(plus + registerName(m.Index))
		if m.Scale > 1 {
			b.WriteString("*" + strconv.Itoa(int(m.Scale)))
		}
	}
	switch {
	case m.Disp < 0:
		b.WriteString("-" + hexText(uint64(-m.Disp)))
	case m.Disp > 0:
		b.WriteString("+" + hexText(uint64(m.Disp)))
	}
	return b.String() + "]"
}

// absolute is the address of an operand that no register but the instruction pointer takes part in.
func (in *instr) absolute(m x86asm.Mem) (addr uint64, ok bool) {
	if m.Index != 0 || m.Base != 0 && m.Base != x86asm.RIP && m.Base != x86asm.EIP {
		return 0, false
	}
	m.Segment = 0
	return in.effective(&machine{bits: in.bits}, m, 0)
}

// place is an address by symbol and offset, or in hexadecimal.
func place(addr uint64, symbol SymbolFunc) string {
	if symbol != nil {
		switch name, base := symbol(addr); {
		case name != "" && addr == base:
			return name
		case name != "" && addr > base:
			return name + "+" + hexText(addr-base)
		}
	}
	return hexText(addr)
}

func hexText(v uint64) string { return "0x" + strconv.FormatUint(v, 16) }

// sizeName says how wide a memory operand is, where a name exists for it.
func (in *instr) sizeName() string {
	size := in.memSize()
	switch in.Op {
	case x86asm.LEA, x86asm.BOUND, opMOVDIR64B, x86asm.SGDT, x86asm.SIDT, x86asm.LGDT, x86asm.LIDT:
		return ""
	case x86asm.INVLPG, x86asm.PREFETCHNTA, x86asm.PREFETCHT0, x86asm.PREFETCHT1, x86asm.PREFETCHT2,
		x86asm.PREFETCHW:
		size = 1
	case x86asm.NOP:
		size = in.DataSize / 8
	case x86asm.XLATB:
		size = 1
	case x86asm.CMPXCHG16B:
		return "oword ptr "
	case x86asm.MOV:
		if opcode := in.bytes[in.pre.opcode]; in.pre.escape == 0 && 0xa0 <= opcode && opcode <= 0xa3 {
			return "" // the address is in the instruction, the size is the register's
		}
	}
	if n := in.element(); n != 0 {
		size = n
	}
	if n := in.lane(); n != 0 {
		size = n
	}
	name := map[int]string{1: "byte", 2: "word", 4: "dword", 6: "fword", 8: "qword", 10: "tbyte", 16: "xmmword",
		32: "ymmword", 64: "zmmword"}[size]
	switch {
	case name == "":
		return ""
	case in.Broadcast:
		return name + " bcst "
	}
	return name + " ptr "
}

// lane is the size of the elements of a gather or scatter in bytes, 0 for all other instructions.
func (in *instr) lane() int {
	name := in.Op.String()
	if !strings.Contains(name, "GATHER") && !strings.Contains(name, "SCATTER") {
		return 0
	}
	switch name[len(name)-2:] {
	case "PS", "DD", "QD":
		return 4
	}
	return 8
}

func registerName(r x86asm.Reg) string {
	switch {
	case x86asm.SPB <= r && r <= x86asm.DIB:
		return [...]string{"spl", "bpl", "sil", "dil"}[r-x86asm.SPB]
	case x86asm.R8L <= r && r <= x86asm.R15L:
		return "r" + strconv.Itoa(int(r-x86asm.R8L)+8) + "d"
	case r == x86asm.F0:
		return "st"
	case x86asm.F0 < r && r <= x86asm.F7:
		return "st(" + strconv.Itoa(int(r-x86asm.F0)) + ")"
	case x86asm.M0 <= r && r <= x86asm.M7:
		return "mm" + strconv.Itoa(int(r-x86asm.M0))
	case x86asm.X0 <= r && r <= x86asm.X31:
		return "xmm" + strconv.Itoa(int(r-x86asm.X0))
	case x86asm.Y0 <= r && r <= x86asm.Y31:
		return "ymm" + strconv.Itoa(int(r-x86asm.Y0))
	case x86asm.Z0 <= r && r <= x86asm.Z31:
		return "zmm" + strconv.Itoa(int(r-x86asm.Z0))
	}
	return strings.ToLower(r.String())
}
