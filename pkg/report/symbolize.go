package report

import (
	"path"

	"xw/pkg/insn"
	"xw/pkg/wire"
)

// Symbolizer names addresses by what the stream told of the target. What it does not know stays unknown.
type Symbolizer interface {
	// Add takes a record about mappings or tasks.
	Add(wire.Record)
	// Place names an address of the target, or of the kernel, at a time.
	Place(addr, time uint64) Place
	// ReadCode reads what the target's files have at an address and returns the number of bytes read.
	ReadCode(addr, time uint64, p []byte) int
}

// name finds out what stands at a site. It is done again only when hits have been added.
func (m *Model) name(w *watch, st *site) {
	if st.named == st.hits {
		return
	}
	kernel := st.key.origin != 0
	at := m.place(st.key.ip, st.last)
	if st.key.userIP.OK {
		st.user = &Caller{IP: Hex(st.key.userIP), Place: m.returnPlace(st.key.userIP.V, st.last)}
	}
	st.insn = m.instruction(w, st, at)
	switch {
	case kernel, w.Access == "x":
		st.place = at
	case st.insn.Status == insn.Exact:
		st.place = m.place(st.insn.Addr, st.last)
	case at.Offset.OK && at.Offset.V == 0: // the target of a call through the watched bytes
		st.place = at
	default:
		st.place = m.returnPlace(st.key.ip, st.last)
	}
	st.named = st.hits
}

func (m *Model) place(addr, time uint64) Place {
	if m.opts.Symbols == nil {
		return Place{Inlined: []Inlined{}}
	}
	p := m.opts.Symbols.Place(addr, time)
	if p.Note != "" && p.Module != "" { // of what lies in no module each place tells itself
		m.remarks.add(string(p.Module) + ": " + string(p.Note))
	}
	p.home = p.Module != "" && string(p.Module) == path.Base(m.session.Target.Exe)
	return p
}

// returnPlace names the instruction that ends at addr, as a call does at its return address. Offsets stay those of
// addr: where the instruction starts is not known.
func (m *Model) returnPlace(addr, time uint64) Place {
	p := m.place(addr-1, time)
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
