package target

import (
	"fmt"
	"slices"
	"strings"

	"xw/pkg/proc"
	"xw/pkg/symbol"
)

// resolver finds places in one process.
type resolver struct {
	*space
	program bool // symbols without a module are the program's
	notes   []string
}

// symbolLen is how much of a place is watched when no length was given: at most this of a symbol, and this of a place
// whose size is unknown.
const symbolLen = 8

// extent is what a name or address leads to.
type extent struct {
	addr  uint64
	left  uint64 // bytes from there to the end of the symbol, 0 if unknown
	place string
}

// resolve finds the place of one watch, decides how many bytes are watched there, and checks them.
func (r *resolver) resolve(spec Spec) (spot, error) {
	e, err := r.locate(spec)
	if err != nil {
		return spot{}, err
	}
	s := spot{addr: e.addr, place: e.place, len: spec.Len}
	pointer := uint64(r.p.Bits() / 8)
	switch {
	case len(spec.Hops) > 0:
		s.len = pointer
		if s.addr%pointer != 0 {
			return spot{}, r.fail(spec, "0x%x: misaligned: a pointer that is followed lies at a multiple of %d", s.addr, pointer)
		}
	case spec.Access == Execute:
		s.len = 1
	case spec.Len != 0:
	case e.left == 0:
		s.len = symbolLen
	case e.left > symbolLen:
		s.len = symbolLen
		r.note(spec, "%s has %d bytes, the first %d are watched", e.place, e.left, symbolLen)
	default:
		s.len = e.left
	}
	if err := r.checkRange(spec, s); err != nil {
		return spot{}, err
	}
	if spec.Access == Read {
		r.note(spec, "r is armed as rw, since x86 has no read-only watchpoint: the instructions tell the reads")
	}
	r.noteMapping(spec, s)
	return s, nil
}

func (r *resolver) note(spec Spec, format string, args ...any) {
	text := spec.Name + ": " + fmt.Sprintf(format, args...)
	if !slices.Contains(r.notes, text) {
		r.notes = append(r.notes, text)
	}
}

func (r *resolver) fail(spec Spec, format string, args ...any) *placeError {
	return &placeError{watch: spec.Name, text: fmt.Sprintf(format, args...)}
}

// locate finds what PLACE names.
func (r *resolver) locate(spec Spec) (extent, error) {
	pl := spec.place
	if pl.address {
		return r.describe(pl.addr, spec.Access), nil
	}
	modules := r.modules
	switch {
	case pl.module != "":
		if modules = r.named(pl.module); len(modules) == 0 {
			return extent{}, r.unknownModule(spec)
		}
	case r.program:
		modules = slices.DeleteFunc(slices.Clone(modules), func(m *module) bool { return !m.exe })
	}
	for _, read := range pl.readings {
		var syms []found
		if read.symbol {
			syms = r.lookup(modules, read.base)
		}
		var files []*module
		if read.file {
			files = r.named(read.base)
		}
		switch {
		case len(syms) > 0:
			if len(files) > 0 {
				r.note(spec, "%q is a symbol and a mapped file: the symbol is taken", read.base)
			}
			return r.symbol(spec, syms, read)
		case len(files) > 0:
			return r.offset(spec, files, read)
		}
	}
	return extent{}, r.unknownSymbol(spec, modules)
}

// symbol takes the one symbol that is meant.
func (r *resolver) symbol(spec Spec, syms []found, read reading) (extent, error) {
	syms = suited(syms, spec.Access)
	if spec.place.module == "" {
		syms = r.dropDead(spec, syms)
	}
	syms = distinct(syms)
	if len(syms) > 1 {
		return extent{}, r.ambiguous(spec, read.base, syms)
	}
	f := syms[0]
	if err := r.watchable(spec, f); err != nil {
		return extent{}, err
	}
	if m := r.copier(f); m != nil {
		r.note(spec, "%s is dead: the program uses the copy that %s has of it (copy relocation)", label(f), m.base())
	}
	e := extent{addr: (f.addr + read.offset) & r.mask, place: label(f)}
	if read.offset != 0 {
		e.place += formatOffset(read.offset, "+")
	}
	switch {
	case read.offset < f.sym.Size:
		e.left = f.sym.Size - read.offset
	case f.sym.Size != 0:
		r.note(spec, "0x%x is outside of %s, which has %d bytes", e.addr, label(f), f.sym.Size)
	}
	return e, nil
}

// watchable refuses what has no address of its own.
func (r *resolver) watchable(spec Spec, f found) error {
	switch f.sym.Type {
	case symbol.TLS:
		e := r.fail(spec, "%s is a thread-local symbol (TLS): every thread has its own, and no address stands for all", label(f))
		e.hint = "watch the address that one thread has of it, as 0xADDR"
		return e
	case symbol.IFunc:
		e := r.fail(spec, "%s is an IFUNC: its address is that of the function which chooses the implementation", label(f))
		e.hint = "name the implementation that was chosen"
		return e
	}
	return nil
}

// suited prefers what the access makes sense for: data to read and write, code to execute. What cannot be watched stays:
// another symbol of the name may not be the one that is meant.
func suited(syms []found, access string) []found {
	unsuited := []symbol.Type{symbol.Func, symbol.IFunc}
	if access == Execute {
		unsuited = []symbol.Type{symbol.Object, symbol.TLS}
	}
	rest := slices.DeleteFunc(slices.Clone(syms), func(f found) bool { return slices.Contains(unsuited, f.sym.Type) })
	if len(rest) == 0 {
		return syms
	}
	return rest
}

// dropDead leaves a program's own copy of a symbol, if there is one, and says so.
func (r *resolver) dropDead(spec Spec, syms []found) []found {
	copies := slices.DeleteFunc(slices.Clone(syms), func(f found) bool { return !f.m.copied[f.sym.Name] })
	if len(copies) == 0 {
		return syms
	}
	of := "a library's"
	if i := slices.IndexFunc(syms, func(f found) bool { return r.copier(f) != nil }); i >= 0 {
		of = "that of " + syms[i].m.base()
	}
	r.note(spec, "%s is a copy of %s and the one in use (copy relocation)", label(copies[0]), of)
	return copies
}

// distinct leaves one symbol for each address. That of a thread-local one is none in memory.
func distinct(syms []found) []found {
	var out []found
	for _, f := range syms {
		same := func(o found) bool {
			return o.addr == f.addr && (o.sym.Type == symbol.TLS) == (f.sym.Type == symbol.TLS)
		}
		if !slices.ContainsFunc(out, same) {
			out = append(out, f)
		}
	}
	return out
}

// offset takes an ELF address in a module, or an offset in a file of another kind.
func (r *resolver) offset(spec Spec, files []*module, read reading) (extent, error) {
	var all []extent
	for _, m := range files {
		place := m.base() + formatOffset(read.offset, "+")
		if m.file != nil {
			all = append(all, extent{addr: m.addr(r.space, read.offset), place: place})
			continue
		}
		for _, x := range m.maps {
			if read.offset >= x.Offset && read.offset-x.Offset < x.End-x.Start {
				all = append(all, extent{addr: x.Start + read.offset - x.Offset, place: place})
			}
		}
	}
	switch len(all) {
	case 0:
		return extent{}, r.fail(spec, "offset 0x%x of %q is not mapped", read.offset, read.base)
	case 1:
		return all[0], nil
	}
	e := &Ambiguous{Watch: spec.Name, Name: spec.Place, hint: "give the address: 0xADDR"}
	for _, x := range all {
		e.Places = append(e.Places, fmt.Sprintf("%s at 0x%x", x.place, x.addr))
	}
	return extent{}, e
}

// describe names the symbol that an address lies in. The size of what is there stays unknown: an address was given, and
// no symbol.
func (r *resolver) describe(addr uint64, access string) extent {
	e := extent{addr: addr, place: fmt.Sprintf("0x%x", addr)}
	m, elfAddr := r.holder(addr)
	if m == nil {
		return e
	}
	if access == Execute {
		if f, ok := m.file.FuncAt(elfAddr); ok {
			return extent{addr: addr, place: within(m, f, elfAddr)}
		}
	}
	syms, err := m.file.DataSymbols()
	if err != nil {
		r.failed = append(r.failed, fmt.Errorf("%s: %w", m.path, err))
	}
	i := slices.IndexFunc(syms, func(s symbol.Sym) bool { return s.Addr <= elfAddr && elfAddr-s.Addr < s.Size })
	if i < 0 {
		return e
	}
	return extent{addr: addr, place: within(m, syms[i], elfAddr)}
}

func within(m *module, s symbol.Sym, elfAddr uint64) string {
	place := m.base() + "!" + s.Demangled
	if elfAddr != s.Addr {
		place += formatOffset(elfAddr-s.Addr, "+")
	}
	return place
}

// label names a symbol as MODULE!SYMBOL.
func label(f found) string { return f.m.base() + "!" + f.sym.Demangled }

// checkRange refuses what no watchpoint can be set on. Of the 5 levels of page tables that new machines have the kernel
// gives addresses above 47 bits only on request: they count when the process has some.
func (r *resolver) checkRange(spec Spec, s spot) error {
	const page = 4096
	bits := 47
	if len(r.maps) > 0 && slices.ContainsFunc(r.maps, func(m proc.Mapping) bool { return m.End > 1<<47 && m.End>>63 == 0 }) {
		bits = 56
	}
	last := s.addr + s.len - 1
	switch {
	case last < s.addr:
		return r.fail(spec, "%d bytes at 0x%x reach beyond the end of the address space", s.len, s.addr)
	case r.p.Bits() == 32 && last >= 1<<32:
		return r.fail(spec, "0x%x: beyond the address space of a 32-bit process", last)
	case last >= -(uint64(1) << bits):
		return r.fail(spec, "0x%x: in the kernel's half of the address space, only the process's own memory can be watched", last)
	case last >= 1<<bits:
		return r.fail(spec, "0x%x: not an address (non-canonical): bits 63 to %d must be equal", last, bits)
	case last >= 1<<bits-page:
		return r.fail(spec, "0x%x: above the highest address of a process, 0x%x", last, uint64(1)<<bits-page-1)
	}
	return nil
}

// noteMapping says what the memory there is like, where that matters to a reader.
func (r *resolver) noteMapping(spec Spec, s spot) {
	m, ok := r.mapping(s.addr)
	switch {
	case !ok:
		r.note(spec, "nothing is mapped at 0x%x now", s.addr)
		return
	case m.Shared:
		name := m.Path
		if name == "" {
			name = "anonymous"
		}
		r.note(spec, "0x%x is in shared memory (%s): what other processes do there is not seen", s.addr, name)
	}
	if need, verb := permission(spec.Access); m.Prot&need == 0 {
		instead := ""
		if m.Prot&proc.ProtExec != 0 {
			instead = ": :x watches code that is executed"
		}
		r.note(spec, "0x%x is mapped without permission to %s (%s)%s", s.addr, verb, protection(m), instead)
	}
	if _, ok := r.mapping(s.addr + s.len - 1); !ok {
		r.note(spec, "nothing is mapped at 0x%x now", s.addr+s.len-1)
	}
}

// permission is what a mapping must allow for an access to hit.
func permission(access string) (prot uint32, verb string) {
	switch access {
	case Execute:
		return proc.ProtExec, "execute"
	case Write:
		return proc.ProtWrite, "write"
	}
	return proc.ProtRead | proc.ProtWrite, "read or write"
}

// protection writes the permissions as /proc/PID/maps does.
func protection(m proc.Mapping) string {
	var b strings.Builder
	for i, c := range "rwx" {
		if m.Prot&(1<<i) == 0 {
			c = '-'
		}
		b.WriteRune(c)
	}
	return b.String()
}
