package insn

import "golang.org/x/arch/x86/x86asm"

// prefixes are what stands before the opcode byte (Intel SDM, volume 2, chapters 2.1 to 2.7).
type prefixes struct {
	legacy   int  // bytes before REX, VEX, EVEX or the opcode
	segment  byte // the last override of 26 2e 36 3e 64 65, or 0
	repeat   byte // the last of f2 f3, or 0
	opSize   bool // 66
	addrSize bool // 67
	lock     bool // f0

	rex    byte // the REX byte, or 0
	vector byte // first byte of a VEX (c4, c5) or EVEX (62) prefix, or 0
	// reserved is set for an EVEX prefix with a bit that AVX-512 does not allow.
	reserved bool
	w        bool // REX.W, VEX.W or EVEX.W
	// regExt, indexExt and baseExt are 8 where the prefix adds 8 to the register number in ModRM.reg, SIB.index and
	// ModRM.rm or SIB.base, else 0.
	regExt, indexExt, baseExt byte

	escape byte // opcode map: 0 one byte, 1 0f, 2 0f38, 3 0f3a, from 4 on only with VEX or EVEX
	opcode int  // index of the opcode byte within its map
}

// scan reads the prefixes of code. ok is false when code ends before an opcode.
func scan(code []byte, bits int) (p prefixes, ok bool) {
	for i, b := range code {
		switch b {
		case 0x26, 0x2e, 0x36, 0x3e:
			if bits == 32 {
				p.segment = b
			}
		case 0x64, 0x65:
			p.segment = b
		case 0xf2, 0xf3:
			p.repeat = b
		case 0x66:
			p.opSize = true
		case 0x67:
			p.addrSize = true
		case 0xf0:
			p.lock = true
		default:
			p.legacy = i
			if isVector(code[i:], bits) {
				return p, p.scanVector(code, i)
			}
			return p, p.scanOpcode(code, i, bits)
		}
	}
	return p, false
}

func (p *prefixes) scanOpcode(code []byte, i, bits int) bool {
	if bits == 64 && code[i]&0xf0 == 0x40 {
		p.rex = code[i]
		p.w = p.rex&8 != 0
		p.regExt, p.indexExt, p.baseExt = p.rex&4<<1, p.rex&2<<2, p.rex&1<<3
		i++
	}
	if i < len(code) && code[i] == 0x0f {
		p.escape = 1
		i++
		if i < len(code) && code[i]&^2 == 0x38 {
			p.escape = 2 + code[i]>>1&1
			i++
		}
	}
	p.opcode = i
	return i < len(code)
}

// isVector tells VEX and EVEX prefixes from the 32-bit instructions LDS, LES and BOUND, which have a memory operand.
func isVector(code []byte, bits int) bool {
	switch code[0] {
	case 0xc4, 0xc5, 0x62:
		return bits == 64 || len(code) > 1 && code[1]&0xc0 == 0xc0
	}
	return false
}

func (p *prefixes) scanVector(code []byte, i int) bool {
	p.vector = code[i]
	switch p.vector {
	case 0xc5:
		p.opcode = i + 2
	case 0xc4:
		p.opcode = i + 3
	default:
		p.opcode = i + 4
	}
	if p.opcode >= len(code) {
		return false
	}
	first, second := ^code[i+1], code[i+2]
	p.regExt = first & 0x80 >> 4
	if p.vector == 0xc5 {
		p.escape = 1
		return true
	}
	p.indexExt, p.baseExt = first&0x40>>3, first&0x20>>2
	p.w = second&0x80 != 0
	p.escape = code[i+1] & 0x1f
	if p.vector == 0x62 {
		p.escape = code[i+1] & 7
		p.reserved = code[i+1]&8 != 0 || second&4 == 0
	}
	return true
}

// segmentReg is the register of the override, or 0.
func (p *prefixes) segmentReg() x86asm.Reg {
	switch p.segment {
	case 0x26:
		return x86asm.ES
	case 0x2e:
		return x86asm.CS
	case 0x36:
		return x86asm.SS
	case 0x3e:
		return x86asm.DS
	case 0x64:
		return x86asm.FS
	case 0x65:
		return x86asm.GS
	}
	return 0
}
