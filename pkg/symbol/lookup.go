package symbol

import (
	"debug/elf"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// Lookup returns the symbols of that name: as in the symbol table, with or without its version (foo, foo@V, foo@@V),
// or demangled, with or without parameter list, return type, ABI tag and Rust hash. An old version of a name is only
// returned when there is no default one or when the name asks for it. The error says that a table is damaged; what
// the others hold is returned all the same. No symbol of that name is no error.
func (f *File) Lookup(name string) ([]Sym, error) {
	syms, err := f.symbols()
	want, version, old := splitVersion(name)
	found := filter(syms, func(s *rawSym) bool {
		return s.name == want && (version == "" || s.version == version && (old || !s.hiddenOrOld))
	})
	if len(found) == 0 {
		found = lookupDemangled(syms, name)
	}
	if slices.ContainsFunc(found, func(s rawSym) bool { return !s.hiddenOrOld }) && version == "" {
		found = filter(found, func(s *rawSym) bool { return !s.hiddenOrOld })
	}
	return f.export(found), err
}

func filter(syms []rawSym, keep func(*rawSym) bool) []rawSym {
	var out []rawSym
	for i := range syms {
		if keep(&syms[i]) {
			out = append(out, syms[i])
		}
	}
	return out
}

// lookupDemangled compares name with what mangled names stand for. Demangling costs microseconds a name, so that only
// names are tried which contain the last identifier asked for, which both manglings spell out.
func lookupDemangled(syms []rawSym, name string) []rawSym {
	key := lastIdentifier(name)
	if abbreviated(key) {
		key = ""
	}
	number := key != "" && key[0] <= '9' && key[0] >= '0' // no identifier: a file's name, or a name with an offset
	return filter(syms, func(s *rawSym) bool {
		if !mangled(s.name) {
			return strings.Contains(s.name, "%2e") && goUnescape(s.name) == name
		}
		return !number && strings.Contains(s.name, key) && demanglesTo(s.name, name)
	})
}

// demanglesTo reports whether name is one of the readable forms of a mangled name.
func demanglesTo(mangledName, name string) bool {
	full := Demangle(mangledName)
	if full == name {
		return true
	}
	if strings.HasPrefix(mangledName, "_R") {
		plain, marks := cutCrateMarks(name)
		return len(marks) > 0 && plain == full && containsAll(mangledName, marks)
	}
	if hash, ok := legacyHash(mangledName); ok {
		return name == full+"::"+hash
	}
	if strings.Contains(full, " [clone ") { // a part of a function has no name but its full one
		return false
	}
	bare := demangled(mangledName, demangle.NoParams, maxDemangled)
	if bare == name || demangled(mangledName, demangle.NoParams, demangle.NoABITags, maxDemangled) == name {
		return true
	}
	// Templates are shown with their return type, which nobody types.
	i := strings.Index(full, bare)
	return i > 0 && full[i:] == name
}

// legacyHash returns the h0123456789abcdef element of a legacy Rust name.
func legacyHash(mangledName string) (string, bool) {
	const tail = len("17h0123456789abcdefE")
	if !strings.HasPrefix(mangledName, "_ZN") || !strings.HasSuffix(mangledName, "E") || len(mangledName) < 3+tail {
		return "", false
	}
	last := mangledName[len(mangledName)-tail:]
	if !strings.HasPrefix(last, "17h") || !isHex(last[3:len(last)-1]) {
		return "", false
	}
	return last[2 : len(last)-1], true
}

// cutCrateMarks takes the [hash] marks out of a Rust v0 path and returns how each is spelled in the mangled name:
// "Cs", the hash less 2 in base 62 (or nothing for hash 1), "_".
func cutCrateMarks(name string) (plain string, marks []string) {
	const digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	for {
		open := strings.IndexByte(name, '[')
		end := strings.IndexByte(name, ']')
		if open < 0 || end < open {
			return plain + name, marks
		}
		n, err := strconv.ParseUint(name[open+1:end], 16, 64)
		if err != nil || n == 0 {
			return plain + name, marks
		}
		mark := "_"
		if n > 1 {
			for n -= 2; ; n /= 62 {
				mark = string(digits[n%62]) + mark
				if n < 62 {
					break
				}
			}
		}
		plain, name, marks = plain+name[:open], name[end+1:], append(marks, "Cs"+mark)
	}
}

func containsAll(s string, parts []string) bool {
	return !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(s, p) })
}

func isHex(s string) bool {
	return strings.Trim(s, "0123456789abcdef") == ""
}

// lastIdentifier returns the last identifier of a C++ or Rust name before its parameters, template arguments and tags;
// "" when it is not plain ASCII or there is none.
func lastIdentifier(name string) string {
	s := strings.TrimRight(name, " ")
	for _, q := range []string{" const", " volatile", "&", "&"} {
		s = strings.TrimSuffix(s, q)
	}
	for _, pair := range []string{"()", "[]", "<>"} {
		s = cutGroup(s, pair[0], pair[1])
	}
	start := len(s)
	for start > 0 && identifierByte(s[start-1]) {
		start--
	}
	if start > 0 && s[start-1] >= 0x80 {
		return ""
	}
	return s[start:]
}

func identifierByte(c byte) bool {
	return c == '_' || c == '$' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// cutGroup removes a balanced bracket group from the end of s.
func cutGroup(s string, open, end byte) string {
	if !strings.HasSuffix(s, string(end)) {
		return s
	}
	depth := 0
	for i := len(s) - 1; i >= 0; i-- {
		switch s[i] {
		case end:
			depth++
		case open:
			if depth--; depth == 0 {
				return s[:i]
			}
		}
	}
	return s
}

// abbreviated reports whether a name's mangling need not contain the identifier: operators, built-in types after
// "operator", and the substitutions of the C++ ABI (Sa, Sb, Ss, Si, So, Sd).
func abbreviated(ident string) bool {
	switch ident {
	case "operator", "new", "delete", "bool", "char", "int", "long", "short", "unsigned", "float", "double", "allocator",
		"basic_string", "string", "basic_istream", "basic_ostream", "basic_iostream", "istream", "ostream", "iostream":
		return true
	}
	return false
}

// DataSymbols returns the data symbols that stay writable while the program runs, by address. Thread-local ones are
// not among them, nor are the labels that linkers define.
func (f *File) DataSymbols() ([]Sym, error) {
	syms, err := f.symbols()
	return f.export(filter(syms, func(s *rawSym) bool {
		return (s.typ == Object || s.typ == NoType && !linkerLabel(s.name)) && f.writable(s.addr)
	})), err
}

// FuncSymbols returns the functions, by address.
func (f *File) FuncSymbols() ([]Sym, error) {
	syms, err := f.symbols()
	return f.export(filter(syms, func(s *rawSym) bool { return s.typ == Func })), err
}

// linkerLabel reports whether ld defines the name itself, as a bound of a segment or a table.
func linkerLabel(name string) bool {
	switch name {
	case "etext", "_etext", "__etext", "edata", "_edata", "end", "_end", "__executable_start", "__bss_start", "__data_start",
		"data_start", "__dso_handle", "__TMC_END__", "_GLOBAL_OFFSET_TABLE_", "_DYNAMIC":
		return true
	}
	return strings.HasPrefix(name, "__start_") || strings.HasPrefix(name, "__stop_")
}

func (f *File) export(raw []rawSym) []Sym {
	out := make([]Sym, len(raw))
	for i := range raw {
		out[i] = f.sym(&raw[i])
	}
	return out
}

func (f *File) sym(s *rawSym) Sym {
	return Sym{Name: strings.Clone(s.name), Version: strings.Clone(s.version), Demangled: strings.Clone(Demangle(s.name)),
		Addr: s.addr, Size: s.size, Type: s.typ, Binding: s.bind, Writable: s.typ != TLS && f.writable(s.addr)}
}

// CopyRelocations returns the symbols that the program holds a copy of in place of the library that defines them
// (R_X86_64_COPY, R_386_COPY): the program's copy is the live one.
func (f *File) CopyRelocations() ([]Sym, error) {
	const copyType = 5 // both R_X86_64_COPY and R_386_COPY
	switch f.image.machine {
	case elf.EM_X86_64, elf.EM_386:
	default:
		return nil, nil
	}
	at := map[uint64]bool{}
	for i := range f.image.sections {
		s := &f.image.sections[i]
		if s.Type != elf.SHT_RELA && s.Type != elf.SHT_REL || s.Flags&elf.SHF_ALLOC == 0 {
			continue
		}
		b, err := f.image.data(s, maxTable)
		if err != nil {
			return nil, err
		}
		for off, typ := range f.image.relocations(b, s.Type) {
			if typ == copyType {
				at[off] = true
			}
		}
	}
	if len(at) == 0 {
		return nil, nil
	}
	syms, err := f.image.symbols(elf.SHT_DYNSYM)
	return f.export(filter(syms, func(s *rawSym) bool { return at[s.addr] && s.typ == Object })), err
}

// relocations yields (address, type) of each entry of a REL or RELA section.
func (im *image) relocations(b []byte, kind elf.SectionType) func(yield func(uint64, uint32) bool) {
	le := binary.LittleEndian
	wide := im.class == elf.ELFCLASS64
	size := 8
	switch {
	case wide && kind == elf.SHT_RELA:
		size = 24
	case wide:
		size = 16
	case kind == elf.SHT_RELA:
		size = 12
	}
	return func(yield func(uint64, uint32) bool) {
		for ; len(b) >= size; b = b[size:] {
			off, typ := uint64(le.Uint32(b)), uint32(b[4])
			if wide {
				off, typ = le.Uint64(b), le.Uint32(b[8:])
			}
			if !yield(off, typ) {
				return
			}
		}
	}
}
