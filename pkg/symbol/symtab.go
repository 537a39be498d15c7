package symbol

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"strings"
)

// Type is what a symbol stands for.
type Type uint8

// Types of symbols.
const (
	NoType Type = iota // a label without a type, as assembly programs have
	Object             // data
	Func
	TLS   // thread-local: Addr is an offset into the module's TLS block, no address
	IFunc // STT_GNU_IFUNC: Addr is the resolver function, not what callers reach
)

func (t Type) String() string {
	return [...]string{"notype", "object", "func", "tls", "ifunc"}[t]
}

// Binding is a symbol's ELF binding.
type Binding uint8

// Bindings of symbols.
const (
	Local  Binding = iota // static in C
	Weak                  // also vague linkage in C++
	Global                // also STB_GNU_UNIQUE
)

// Sym is one defined symbol of a file.
type Sym struct {
	Name      string // as in the symbol table, without the symbol version
	Version   string // symbol version where the symbol table shows one: "GLIBC_2.2.5"; else empty
	Demangled string // C++ and Rust names readable, with parameters; of other names Name
	Addr      uint64 // ELF virtual address; add the load bias for an address in a process
	Size      uint64 // bytes; 0 if the symbol has none
	Type      Type
	Binding   Binding
	Writable  bool // lies in a segment that stays writable after relocation
}

// rawSym is a symbol before demangling; name is a substring of the whole string table.
type rawSym struct {
	name        string
	addr, size  uint64
	typ         Type
	bind        Binding
	version     string
	hiddenOrOld bool // foo@V rather than foo@@V: only found by those who ask for V
}

// symbols decodes every symbol table of the given type: .symtab or .dynsym.
func (im *image) symbols(typ elf.SectionType) ([]rawSym, error) {
	var out []rawSym
	for i := range im.sections {
		s := &im.sections[i]
		if s.Type != typ {
			continue
		}
		syms, err := im.symbolTable(s)
		if err != nil {
			return nil, fmt.Errorf("symbol table: %w", err)
		}
		out = append(out, syms...)
	}
	return out, nil
}

func (im *image) symbolTable(s *elf.SectionHeader) ([]rawSym, error) {
	b, err := im.data(s, maxTable)
	if err != nil {
		return nil, err
	}
	names, err := im.linked(s)
	if err != nil {
		return nil, err
	}
	versions := im.hiddenVersions(s)
	entry := elf.Sym64Size
	if im.class == elf.ELFCLASS32 {
		entry = elf.Sym32Size
	}
	out := make([]rawSym, 0, len(b)/entry)
	for i := 1; (i+1)*entry <= len(b); i++ {
		sym, ok := im.symbol(b[i*entry:], names)
		if !ok {
			continue
		}
		if 2*i+2 <= len(versions) && binary.LittleEndian.Uint16(versions[2*i:])&0x8000 != 0 {
			sym.hiddenOrOld = true
		}
		out = append(out, sym)
	}
	return out, nil
}

// hiddenVersions returns .gnu.version when s is the table it belongs to: one u16 per symbol, bit 15 set on those that
// are not the default version of their name. Names in .symtab carry the version instead.
func (im *image) hiddenVersions(s *elf.SectionHeader) []byte {
	if s.Type != elf.SHT_DYNSYM {
		return nil
	}
	for i := range im.sections {
		if im.sections[i].Type == elf.SHT_GNU_VERSYM {
			b, err := im.data(&im.sections[i], maxTable)
			if err == nil {
				return b
			}
		}
	}
	return nil
}

// symbol decodes one entry; ok is false for those that stand for no address: undefined, absolute, section, file.
func (im *image) symbol(b []byte, names string) (sym rawSym, ok bool) {
	le := binary.LittleEndian
	var info byte
	var shndx uint16
	if im.class == elf.ELFCLASS32 {
		sym.addr, sym.size = uint64(le.Uint32(b[4:])), uint64(le.Uint32(b[8:]))
		info, shndx = b[12], le.Uint16(b[14:])
	} else {
		info, shndx = b[4], le.Uint16(b[6:])
		sym.addr, sym.size = le.Uint64(b[8:]), le.Uint64(b[16:])
	}
	switch index := elf.SectionIndex(shndx); index {
	case elf.SHN_UNDEF, elf.SHN_ABS, elf.SHN_COMMON:
		return sym, false
	}
	if sym.typ, ok = symType(elf.ST_TYPE(info)); !ok {
		return sym, false
	}
	sym.bind = symBinding(elf.ST_BIND(info))
	name, ok := cstring(names, le.Uint32(b), maxNameBytes)
	if !ok || name == "" {
		return sym, false
	}
	sym.name, sym.version, sym.hiddenOrOld = splitVersion(name)
	return sym, true
}

func symType(t elf.SymType) (Type, bool) {
	switch t {
	case elf.STT_NOTYPE:
		return NoType, true
	case elf.STT_OBJECT, elf.STT_COMMON:
		return Object, true
	case elf.STT_FUNC:
		return Func, true
	case elf.STT_TLS:
		return TLS, true
	case elf.STT_GNU_IFUNC:
		return IFunc, true
	}
	return NoType, false
}

func symBinding(b elf.SymBind) Binding {
	switch b {
	case elf.STB_LOCAL:
		return Local
	case elf.STB_WEAK:
		return Weak
	}
	return Global
}

// splitVersion takes "foo@@V" (the default version) and "foo@V" (an old one, or a reference) apart. Objective-C and
// Swift names may begin with @ and Go names may hold one after a slash; those are left alone.
func splitVersion(name string) (base, version string, old bool) {
	i := strings.IndexByte(name, '@')
	if i <= 0 || strings.ContainsAny(name[i:], "/()[]{} ") {
		return name, "", false
	}
	if rest, ok := strings.CutPrefix(name[i:], "@@"); ok {
		return name[:i], rest, false
	}
	return name[:i], name[i+1:], true
}
