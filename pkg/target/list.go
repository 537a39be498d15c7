package target

import (
	"strings"

	"xw/pkg/proc"
)

// ListedSymbol is a writable data symbol of the process.
type ListedSymbol struct {
	Module    string // base name
	Name      string // as in the symbol table
	Demangled string // readable form of a C++ or Rust name, else Name
	Size      uint64 // bytes; 0 if unknown
	Addr      uint64 // in the process
}

// List lists the writable data symbols whose name, as MODULE!SYMBOL or SYMBOL, has pattern in it, or matches it as a whole
// when it has a * (any text) or ? (any character). The executable's come first, each module's by address. Originals of
// symbols that a program copied (copy relocation) are left out: nobody uses them.
func List(p *proc.Process, pattern string) ([]ListedSymbol, error) {
	s, err := openSpace(p)
	if err != nil {
		return nil, err
	}
	defer s.close()
	var out []ListedSymbol
	for _, m := range s.modules {
		for _, sym := range s.candidates(m, Write) {
			f := found{m, sym, m.addr(s, sym.Addr)}
			if s.copier(f) != nil || !matches(pattern, sym.Name, sym.Demangled, m.base()+"!"+sym.Name, m.base()+"!"+sym.Demangled) {
				continue
			}
			out = append(out, ListedSymbol{Module: m.base(), Name: sym.Name, Demangled: sym.Demangled, Size: sym.Size, Addr: f.addr})
		}
	}
	if len(out) == 0 && len(s.failed) > 0 {
		return nil, s.failed[0]
	}
	return out, nil
}

func matches(pattern string, names ...string) bool {
	for _, name := range names {
		if strings.ContainsAny(pattern, "*?") {
			if glob(pattern, name) {
				return true
			}
		} else if strings.Contains(name, pattern) {
			return true
		}
	}
	return false
}

// glob matches * and ? alone: names of Go and C++ hold brackets, slashes and backslashes.
func glob(pattern, name string) bool {
	star, mark := -1, 0
	p := 0
	for n := 0; n < len(name); {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, n
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[n]):
			p++
			n++
		case star >= 0:
			mark++
			p, n = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
