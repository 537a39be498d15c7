package insn

const (
	// farFunction is the distance from a function's start, in bytes, beyond which the code just before ip is tried first:
	// some 150 instructions, which take 20 us to decode.
	farFunction = 512
	// farthest is the distance from a function's start beyond which the start is of no use.
	farthest = 1 << 20
	// lookBack is how many bytes before an address are read to find where the instruction before it begins.
	lookBack = 64
)

// certainty is what is known of the instruction that ends at an address.
type certainty int

const (
	cut    certainty = iota // it may begin before the code at hand
	listed                  // it is one of a list
	proven                  // it is the only one
)

// ending lists the instructions that may be the one that ends at addr, given the function that addr lies in, or 0.
func (f *finder) ending(addr, function uint64) ([]instr, certainty) {
	distance := addr - function
	known := function != 0 && function < addr && distance <= farthest
	if known && distance <= farFunction {
		if last, ok := f.forward(addr, function); ok {
			return last, proven
		}
	}
	list, found := f.backward(addr)
	if known && distance > farFunction && found != proven {
		if last, ok := f.forward(addr, function); ok {
			return last, proven
		}
	}
	return list, found
}

// forward decodes from a function's start. ok is false if that does not lead to addr.
func (f *finder) forward(addr, function uint64) (last []instr, ok bool) {
	code := f.code(function, int(addr-function))
	if uint64(len(code)) < addr-function {
		return nil, false
	}
	for at := function; at < addr; {
		in, ok := decode(code[at-function:], at, f.bits)
		if !ok {
			return nil, false
		}
		at += uint64(in.Len)
		if at == addr {
			last = []instr{in}
		}
	}
	return last, true
}

// backward decodes at every byte before addr. An instruction that ends there is listed unless no instruction ends where
// it begins. That is followed back as far as code is at hand: decodings that start at different bytes soon fall into
// step, so that mostly one is left. Where none is, data stands before it, and all are listed.
func (f *finder) backward(addr uint64) (list []instr, found certainty) {
	code := f.behind(addr)
	n := len(code)
	first := f.firstOf(code, addr)
	// follows[i] says that an instruction may begin at i: one ends there, or begins before the code at hand.
	var follows [lookBack]bool
	follows[0] = true
	for i := 1; i < min(maxLen, n) && !first; i++ {
		follows[i] = true
	}
	var others []instr
	for i := range n {
		if !follows[i] && n-i > maxLen {
			continue
		}
		in, ok := decode(code[i:], addr-uint64(n-i), f.bits)
		switch {
		case !ok:
		case i+in.Len < n:
			follows[i+in.Len] = follows[i+in.Len] || follows[i]
		case follows[i]:
			list = append(list, in)
		default:
			others = append(others, in)
		}
	}
	if list == nil {
		list = others
	}
	switch {
	case n < maxLen && !first:
		return list, cut
	case len(list) == 1:
		return list, proven
	}
	return list, listed
}

// firstOf reports whether code that ends at addr is the first there is: nothing could be read of the page before it when an
// instruction had just been executed that ends at addr, and so none of that is in that page.
func (f *finder) firstOf(code []byte, addr uint64) bool {
	const page = 4096
	start := addr - uint64(len(code))
	return 0 < len(code) && len(code) < lookBack && start%page == 0 && start == f.CodeStart
}

// behind gives the code before addr, as much as is at hand up to lookBack bytes.
func (f *finder) behind(addr uint64) []byte {
	if code := f.code(addr-lookBack, lookBack); len(code) == lookBack {
		return code
	}
	if n := addr - f.CodeStart; f.CodeStart < addr && n <= uint64(len(f.Code)) {
		return f.Code[n-min(n, lookBack) : n]
	}
	code := f.code(addr-maxLen, maxLen)
	if len(code) < maxLen {
		return nil
	}
	return code
}
