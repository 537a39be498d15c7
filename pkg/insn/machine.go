package insn

import "golang.org/x/arch/x86/x86asm"

// Numbers of the general registers in the instruction set's own order, that of ModRM.
const (
	ax = iota
	cx
	dx
	bx
	sp
	bp
	si
	di
)

// sampled is where the register with an instruction set's number stands in Input.Regs.
var sampled = [16]uint8{0, 2, 3, 1, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15}

// regSet is a set of general registers, a bit for each number.
type regSet uint16

func set(numbers ...int) (s regSet) {
	for _, n := range numbers {
		s |= 1 << n
	}
	return s
}

func (s regSet) has(number int) bool { return s>>number&1 != 0 }

// general gives the number of a general register, its size in bytes and the bit its value starts at. ok is false for
// every other register.
func general(r x86asm.Reg) (number, size, shift int, ok bool) {
	switch {
	case x86asm.AL <= r && r <= x86asm.BL:
		return int(r - x86asm.AL), 1, 0, true
	case x86asm.AH <= r && r <= x86asm.BH:
		return int(r - x86asm.AH), 1, 8, true
	case x86asm.SPB <= r && r <= x86asm.R15B:
		return int(r-x86asm.SPB) + sp, 1, 0, true
	case x86asm.AX <= r && r <= x86asm.R15W:
		return int(r - x86asm.AX), 2, 0, true
	case x86asm.EAX <= r && r <= x86asm.R15L:
		return int(r - x86asm.EAX), 4, 0, true
	case x86asm.RAX <= r && r <= x86asm.R15:
		return int(r - x86asm.RAX), 8, 0, true
	}
	return 0, 0, 0, false
}

// machine is the state of a thread as sampled: after the instruction in question.
type machine struct {
	regs *[16]uint64 // nil when none were sampled
	bits int
}

// number gives the value of a general register by its number, cut to the mode's width.
func (m *machine) number(n int) (v uint64, ok bool) {
	if m.regs == nil || m.bits == 32 && n > di {
		return 0, false
	}
	return truncate(m.regs[sampled[n]], m.bits/8), true
}

// register gives the value of a general register of any width.
func (m *machine) register(r x86asm.Reg) (v uint64, size int, ok bool) {
	n, size, shift, ok := general(r)
	if !ok {
		return 0, 0, false
	}
	v, ok = m.number(n)
	return truncate(v>>shift, size), size, ok
}

// truncate keeps the low bytes of v.
func truncate(v uint64, size int) uint64 {
	if size >= 8 {
		return v
	}
	return v & (1<<(8*size) - 1)
}

// extend sign-extends the low bytes of v.
func extend(v uint64, size int) uint64 {
	shift := 64 - 8*min(size, 8)
	return uint64(int64(v<<shift) >> shift)
}
