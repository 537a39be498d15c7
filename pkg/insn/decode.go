package insn

import "golang.org/x/arch/x86/x86asm"

// maxLen is the longest instruction that the CPU executes, in bytes.
const maxLen = 15

// instr is a decoded instruction.
type instr struct {
	x86asm.Inst
	addr  uint64
	bits  int // 64 or 32: the mode it was decoded in
	pre   prefixes
	bytes []byte
}

// next is the address after the instruction.
func (in *instr) next() uint64 { return in.addr + uint64(in.Len) }

// decode reads the instruction at the start of code, which lies at addr. ok is false for bytes that are no instruction,
// are none known here, or end too early.
func decode(code []byte, addr uint64, bits int) (in instr, ok bool) {
	code = code[:min(len(code), maxLen)]
	p, ok := scan(code, bits)
	if !ok {
		return instr{}, false
	}
	in = instr{addr: addr, bits: bits, pre: p}
	if p.vector != 0 {
		ok = in.decodeVector(code)
	} else {
		ok = in.decodeLegacy(code)
	}
	if !ok && !in.decodeShape(code) {
		return instr{}, false
	}
	in.Mode = bits
	in.bytes = code[:in.Len]
	return in, true
}

func (in *instr) decodeLegacy(code []byte) bool {
	if in.pre.isGroupByPrefix(code) {
		return false
	}
	var err error
	in.Inst, err = x86asm.Decode(code, in.bits)
	if err != nil || in.Op == 0 {
		return false
	}
	for _, p := range in.Prefix {
		if p&x86asm.PrefixInvalid != 0 { // LOCK where it faults
			return false
		}
	}
	return true
}

// isGroupByPrefix tells the instructions of two opcodes that a prefix makes different ones, such as CLWB and XSAVEOPT:
// the decoder leaves the prefix out of account.
func (p *prefixes) isGroupByPrefix(code []byte) bool {
	if p.escape != 1 || !p.opSize && p.repeat == 0 || len(code) < p.opcode+2 {
		return false
	}
	reg := code[p.opcode+1] >> 3 & 7
	return code[p.opcode] == 0xae && reg >= 4 || code[p.opcode] == 0xc7 && reg >= 6
}

// decodeVector decodes a VEX or EVEX instruction. The decoder takes no prefix before VEX, takes what follows VZEROUPPER
// for a ModRM byte, does not ask for that byte, knows no RIP-relative operand, and takes the FP16 opcode maps for
// others: all of that is seen to here.
func (in *instr) decodeVector(code []byte) bool {
	p := &in.pre
	if p.opSize || p.lock || p.repeat != 0 || p.addrSize && in.bits == 32 || p.reserved || p.escape == 0 || p.escape > 3 {
		return false
	}
	if p.vector != 0x62 && p.escape == 1 && code[p.opcode] == 0x77 {
		in.Op = x86asm.VZEROUPPER
		if code[p.opcode-1]&4 != 0 {
			in.Op = x86asm.VZEROALL
		}
		in.Len = p.opcode + 1
		return true
	}
	if len(code) < p.opcode+2 {
		return false
	}
	if !in.decodeWidth(code[p.legacy:]) || in.Len+p.legacy > maxLen {
		return false
	}
	in.Len += p.legacy
	in.AddrSize = in.bits
	if p.addrSize {
		in.AddrSize = 32
	}
	relative := in.bits == 64 && code[p.opcode+1]&0xc7 == 5
	for i, arg := range in.Args {
		if m, ok := arg.(x86asm.Mem); ok {
			in.Args[i] = p.address(m, relative)
		}
	}
	return true
}

// decodeWidth decodes at a VEX or EVEX prefix. Many instructions ignore the bits W and L, the decoder knows them with
// zeros: that is tried when it does not know them as they are.
func (in *instr) decodeWidth(code []byte) bool {
	var b [maxLen]byte
	n := copy(b[:], code)
	width := in.pre.opcode - in.pre.legacy - 1 // where VEX has W and L
	if in.pre.vector == 0x62 {
		width = 2
	}
	masks := [...]byte{0xff, 0x7f, 0xfb, 0x7b}
	switch in.pre.vector {
	case 0xc5:
		masks = [...]byte{0xff, 0xff, 0xfb, 0xfb} // bit 7 is R
	case 0x62:
		masks = [...]byte{0xff, 0x7f, 0x7f, 0x7f} // bit 2 is fixed
	}
	for _, mask := range masks {
		b[width] = code[width] & mask
		inst, err := x86asm.Decode(b[:n], in.bits)
		if err == nil && inst.Op != 0 {
			in.Inst = inst
			return true
		}
	}
	return false
}

// address completes an operand of decodeVector.
func (p *prefixes) address(m x86asm.Mem, relative bool) x86asm.Mem {
	m.Segment = p.segmentReg()
	if relative {
		m.Base = x86asm.RIP
	}
	if p.addrSize {
		m.Base = narrow(m.Base)
		m.Index = narrow(m.Index)
	}
	return m
}

// narrow is the 32-bit register of a 64-bit one.
func narrow(r x86asm.Reg) x86asm.Reg {
	switch {
	case r == x86asm.RIP:
		return x86asm.EIP
	case x86asm.RAX <= r && r <= x86asm.R15:
		return r - x86asm.RAX + x86asm.EAX
	}
	return r
}
