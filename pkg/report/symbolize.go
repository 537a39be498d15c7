package report

import (
	"xw/pkg/insn"
	"xw/pkg/wire"
)

// Symbolizer names addresses by the mappings that the stream told of. What it does not know stays unknown.
type Symbolizer interface {
	AddMap(*wire.Mmap)
	// User names an address of the target at a time.
	User(addr, time uint64) Place
	// Kernel names an address of the kernel.
	Kernel(addr uint64) Place
	// Name returns the symbol, of code or data, that covers an address of the target, and where it starts; "" if none does.
	Name(addr, time uint64) (symbol string, start uint64)
	// ReadCode reads what the target's files have at an address and returns the number of bytes read.
	ReadCode(addr, time uint64, p []byte) int
}

// name finds out what stands at a site. It is done again only when hits have been added.
func (m *Model) name(w *watch, st *site) {
	if st.named == st.hits {
		return
	}
	kernel := st.key.origin != 0
	at := m.place(st.key.ip, st.last, kernel)
	if st.key.userIP.OK {
		st.user = &Caller{IP: Hex(st.key.userIP), Place: m.returnPlace(st.key.userIP.V, st.last)}
	}
	st.insn = m.instruction(w, st, at)
	switch {
	case kernel, w.Access == "x":
		st.place = at
	case st.insn.Status == insn.Exact:
		st.place = m.place(st.insn.Addr, st.last, false)
	case at.Offset.OK && at.Offset.V == 0: // the target of a call through the watched bytes
		st.place = at
	default:
		st.place = m.returnPlace(st.key.ip, st.last)
	}
	st.named = st.hits
}

func (m *Model) place(addr, time uint64, kernel bool) Place {
	switch {
	case m.opts.Symbols == nil:
		return Place{Inlined: []Inlined{}}
	case kernel:
		return m.opts.Symbols.Kernel(addr)
	}
	return m.opts.Symbols.User(addr, time)
}

// returnPlace names the instruction that ends at addr, as a call does at its return address. Offsets stay those of
// addr: where the instruction starts is not known.
func (m *Model) returnPlace(addr, time uint64) Place {
	p := m.place(addr-1, time, false)
	if p.Offset.OK {
		p.Offset.V++
	}
	if p.ModuleOffset.OK {
		p.ModuleOffset.V++
	}
	return p
}

// String is the place in words: func+0x1c, else module+0x1050, else "".
func (p Place) String() string {
	switch {
	case p.Func != "" && p.Offset.OK && p.Offset.V > 0:
		return string(p.Func) + "+" + Hex(p.Offset).String()
	case p.Func != "":
		return string(p.Func)
	case p.Module != "" && p.ModuleOffset.OK:
		return string(p.Module) + "+" + p.ModuleOffset.String()
	}
	return ""
}
