package symbol

import (
	"cmp"
	"debug/elf"
	"slices"
	"sort"
	"strings"
)

// FuncAt returns the function whose code holds an ELF address, ok false if no symbol says so. A symbol without a size,
// as hand-written assembly has, reaches to the next symbol or to the end of its section, whichever comes first, unless
// a symbol with a size ends in between.
func (f *File) FuncAt(addr uint64) (Sym, bool) {
	s := f.funcAt(addr, "")
	if s == nil {
		return Sym{}, false
	}
	return f.sym(s), true
}

// funcAt prefers the symbol called prefer among several at one address.
func (f *File) funcAt(addr uint64, prefer string) *rawSym {
	f.indexFuncs()
	n := sort.Search(len(f.funcs), func(i int) bool { return f.funcs[i].addr > addr })
	if n == 0 {
		return nil
	}
	last := f.funcs[n-1]
	if best := f.covering(n, addr, prefer); best != nil {
		return best
	}
	if last.size != 0 || f.sizedEnd[n-1] > last.addr || !f.sameSection(last.addr, addr) {
		return nil
	}
	return f.choose(n, last.addr, prefer, func(*rawSym) bool { return true })
}

// covering returns the innermost symbol with a size, of those that begin before index n, that reaches over addr.
func (f *File) covering(n int, addr uint64, prefer string) *rawSym {
	for i := n - 1; i >= 0 && f.sizedEnd[i] > addr; i-- {
		if s := &f.funcs[i]; s.size > addr-s.addr {
			return f.choose(i+1, s.addr, prefer, func(c *rawSym) bool { return c.size > addr-c.addr })
		}
	}
	return nil
}

// choose picks among the symbols at one address that end before index n: the preferred name, then code over labels,
// global over weak over local, then the name with the fewest leading underscores, then the first by name.
func (f *File) choose(n int, addr uint64, prefer string, suits func(*rawSym) bool) *rawSym {
	var best *rawSym
	for i := n - 1; i >= 0 && f.funcs[i].addr == addr; i-- {
		c := &f.funcs[i]
		if !suits(c) {
			continue
		}
		if prefer != "" && c.name == prefer {
			return c
		}
		if best == nil || better(c, best) < 0 {
			best = c
		}
	}
	return best
}

func better(a, b *rawSym) int {
	label := func(s *rawSym) bool { return s.typ == NoType }
	underscores := func(s *rawSym) int { return len(s.name) - len(strings.TrimLeft(s.name, "_")) }
	switch {
	case label(a) != label(b):
		if label(b) {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(b.bind, a.bind), cmp.Compare(underscores(a), underscores(b)), strings.Compare(a.name, b.name))
}

// indexFuncs sorts the code symbols by address.
func (f *File) indexFuncs() {
	if f.funcs != nil {
		return
	}
	syms, _ := f.symbols() // a damaged table leaves functions unknown
	f.funcs = filter(syms, func(s *rawSym) bool {
		switch s.typ {
		case Func, IFunc, NoType:
			prot, ok := f.Segment(s.addr)
			return ok && prot&protExec != 0 && !strings.HasPrefix(s.name, "$") && !linkerLabel(s.name)
		}
		return false
	})
	if f.funcs == nil {
		f.funcs = []rawSym{}
	}
	slices.SortStableFunc(f.funcs, func(a, b rawSym) int { return cmp.Compare(a.addr, b.addr) })
	f.sizedEnd = make([]uint64, len(f.funcs))
	var end uint64
	for i := range f.funcs {
		if s := &f.funcs[i]; s.size > 0 && s.addr+s.size > s.addr {
			end = max(end, s.addr+s.size)
		}
		f.sizedEnd[i] = end
	}
}

// sameSection reports whether one allocated section holds both addresses; a file without section headers has none.
func (f *File) sameSection(a, b uint64) bool {
	for i := range f.image.sections {
		s := &f.image.sections[i]
		if s.Flags&elf.SHF_ALLOC != 0 && a >= s.Addr && a-s.Addr < s.Size {
			return b >= s.Addr && b-s.Addr < s.Size
		}
	}
	return false
}
