package insn

// Places of registers in Input.Regs.
const (
	regAX = iota
	regBX
	regCX
	regDX
	regSI
	regDI
	regBP
	regSP
	regR8
	regR12 = regR8 + 4
)
