package insn

import "bytes"

// finder looks for the instruction of one hit.
type finder struct {
	*Input
	machine
	// files is ReadCode, or nil where it disagrees with the bytes seen at the hit.
	files func(addr uint64, p []byte) int
}

func newFinder(in *Input) *finder {
	f := &finder{Input: in, machine: machine{regs: in.Regs, bits: 64}}
	if in.Bits == 32 && !in.Kernel {
		f.bits = 32
	}
	if in.ReadCode != nil && f.agrees() {
		f.files = in.ReadCode
	}
	return f
}

// agrees compares Code with what ReadCode has at the same place.
func (f *finder) agrees() bool {
	other := make([]byte, len(f.Code))
	n := f.ReadCode(f.CodeStart, other)
	return bytes.Equal(other[:n], f.Code[:n])
}

// code gives up to n bytes from addr on.
func (f *finder) code(addr uint64, n int) []byte {
	var seen []byte
	if offset := addr - f.CodeStart; addr >= f.CodeStart && offset < uint64(len(f.Code)) {
		seen = f.Code[offset:]
		if len(seen) >= n {
			return seen[:n]
		}
	}
	if f.files != nil {
		read := make([]byte, n)
		if read = read[:f.files(addr, read)]; len(read) > len(seen) {
			return read
		}
	}
	return seen
}

// at decodes the instruction at addr.
func (f *finder) at(addr uint64) (instr, bool) {
	return decode(f.code(addr, maxLen), addr, f.bits)
}
