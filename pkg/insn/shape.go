package insn

import (
	"encoding/binary"

	"golang.org/x/arch/x86/x86asm"
)

// Instructions that x86asm does not decode. Of opUnnamed no more is known than its length and its memory operand.
const (
	opUnnamed x86asm.Op = 1<<16 + iota
	opADCX
	opADOX
	opCLFLUSHOPT
	opCLWB
	opENDBR32
	opENDBR64
	opMOVDIR64B
	opMOVDIRI
)

func shapeName(op x86asm.Op) string {
	switch op {
	case opADCX:
		return "adcx"
	case opADOX:
		return "adox"
	case opCLFLUSHOPT:
		return "clflushopt"
	case opCLWB:
		return "clwb"
	case opENDBR32:
		return "endbr32"
	case opENDBR64:
		return "endbr64"
	case opMOVDIR64B:
		return "movdir64b"
	case opMOVDIRI:
		return "movdiri"
	}
	return ""
}

// decodeShape reads the length and the memory operand of an instruction in an opcode map where all opcodes are built
// alike. It serves what the decoder does not know, so that code can be read past it.
func (in *instr) decodeShape(code []byte) bool {
	p := &in.pre
	immediate, ok := p.shape(code[p.opcode])
	if !ok || len(code) < p.opcode+2 || p.addrSize && in.bits == 32 {
		return false
	}
	in.Inst = x86asm.Inst{Op: opUnnamed, DataSize: 32, AddrSize: in.bits}
	if p.w {
		in.DataSize = 64
	}
	if p.addrSize {
		in.AddrSize = 32
	}
	arg, n, ok := in.modRM(code[p.opcode+1:])
	in.Len = p.opcode + 1 + n + immediate
	if !ok || in.Len > len(code) {
		return false
	}
	in.Args[0] = arg
	in.name(code[p.opcode], code[p.opcode+1])
	return true
}

// shape is the number of immediate bytes of an opcode that has a ModRM byte. ok is false where opcodes differ.
func (p *prefixes) shape(opcode byte) (immediate int, ok bool) {
	switch {
	case p.reserved, p.lock:
		return 0, false
	case p.escape == 2:
		return 0, true
	case p.escape == 3:
		return 1, true
	case p.escape == 1 && p.vector == 0:
		return 0, opcode == 0x0d || 0x18 <= opcode && opcode <= 0x1f || opcode == 0xae || opcode == 0xc7
	case p.escape == 1:
		switch opcode {
		case 0x70, 0x71, 0x72, 0x73, 0xc2, 0xc4, 0xc5, 0xc6:
			return 1, true
		}
		return 0, opcode != 0x77
	}
	return 0, p.vector == 0x62 && (p.escape == 5 || p.escape == 6)
}

// modRM reads the ModRM byte at the start of code and the n bytes that belong to it. It gives the memory operand, or nil
// for a register.
func (in *instr) modRM(code []byte) (arg x86asm.Arg, n int, ok bool) {
	p := &in.pre
	mod, low := code[0]>>6, code[0]&7
	if mod == 3 {
		return nil, 1, true
	}
	m := x86asm.Mem{Segment: p.segmentReg()}
	first, relative := x86asm.RAX, x86asm.RIP
	if in.AddrSize == 32 {
		first, relative = x86asm.EAX, x86asm.EIP
	}
	n = 1
	if low == 4 {
		if len(code) < 2 {
			return nil, 0, false
		}
		n, low = 2, code[1]&7
		m.Scale = 1 << (code[1] >> 6)
		if index := code[1]>>3&7 | p.indexExt; index != 4 {
			m.Index = first + x86asm.Reg(index)
		}
		relative = 0
	}
	if mod != 0 || low != 5 {
		m.Base = first + x86asm.Reg(low|p.baseExt)
	} else {
		mod = 2
		if in.bits == 64 {
			m.Base = relative
		}
	}
	switch disp := code[n:]; {
	case mod == 1 && len(disp) >= 1:
		m.Disp = int64(int8(disp[0]))
		n++
	case mod == 2 && len(disp) >= 4:
		m.Disp = int64(int32(binary.LittleEndian.Uint32(disp)))
		n += 4
	case mod != 0:
		return nil, 0, false
	}
	return m, n, true
}

// name tells the instructions that are common enough to be known by name.
func (in *instr) name(opcode, modRM byte) {
	p := &in.pre
	if p.vector != 0 {
		return
	}
	none := !p.opSize && p.repeat == 0
	register := modRM >= 0xc0
	reg := modRM >> 3 & 7
	switch {
	case p.escape == 1 && opcode == 0x1e && p.repeat == 0xf3 && modRM == 0xfa:
		in.Op = opENDBR64
	case p.escape == 1 && opcode == 0x1e && p.repeat == 0xf3 && modRM == 0xfb:
		in.Op = opENDBR32
	case p.escape == 1 && opcode < 0x20: // the hints, 0f0d and 0f18 to 0f1f
		in.Op = x86asm.NOP
	case p.escape == 1 && opcode == 0xae && p.opSize && !register && reg == 6:
		in.Op, in.MemBytes = opCLWB, 1
	case p.escape == 1 && opcode == 0xae && p.opSize && !register && reg == 7:
		in.Op, in.MemBytes = opCLFLUSHOPT, 1
	case p.escape == 2 && opcode == 0xf6 && (p.opSize || p.repeat == 0xf3):
		in.Op = opADCX
		if p.repeat == 0xf3 {
			in.Op = opADOX
		}
		in.registerFirst(modRM)
	case p.escape == 2 && opcode == 0xf9 && none && !register:
		in.Op, in.MemBytes = opMOVDIRI, in.DataSize/8
		in.Args[1] = in.register(reg | p.regExt)
	case p.escape == 2 && opcode == 0xf8 && p.opSize && !register:
		in.Op, in.MemBytes = opMOVDIR64B, 64
		in.DataSize = in.AddrSize
		in.registerFirst(modRM)
	}
}

// registerFirst puts ModRM.reg before the operand of ModRM.rm.
func (in *instr) registerFirst(modRM byte) {
	rm := in.Args[0]
	if rm == nil {
		rm = in.register(modRM&7 | in.pre.baseExt)
	} else if in.MemBytes == 0 {
		in.MemBytes = in.DataSize / 8
	}
	in.Args[0], in.Args[1] = in.register(modRM>>3&7|in.pre.regExt), rm
}

func (in *instr) register(number byte) x86asm.Reg {
	if in.DataSize == 64 {
		return x86asm.RAX + x86asm.Reg(number)
	}
	return x86asm.EAX + x86asm.Reg(number)
}
