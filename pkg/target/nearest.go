package target

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"xw/pkg/symbol"
)

const (
	// maxNearest is how many names an error suggests.
	maxNearest = 5
	// maxTwins is how many symbols of one name an error lists of a module.
	maxTwins = 5
)

func (r *resolver) ambiguous(spec Spec, name string, syms []found) error {
	e := &Ambiguous{Watch: spec.Name, Name: name}
	in := map[string]int{} // by base name
	for _, f := range syms {
		base := f.m.base()
		in[base]++
		e.Places = append(e.Places, label(f)+" "+position(f))
		if in[base] <= maxTwins {
			e.listed = append(e.listed, e.Places[len(e.Places)-1])
		}
	}
	for _, base := range slices.Sorted(maps.Keys(in)) {
		if more := in[base] - maxTwins; more > 0 {
			e.listed = append(e.listed, fmt.Sprintf("%d more in %s", more, base))
		}
	}
	own := slices.IndexFunc(syms, func(f found) bool { return f.m.exe })
	switch {
	case len(in) > 1 && own >= 0 && in[syms[own].m.base()] == 1:
		e.hint = "name the module: MODULE!SYMBOL, as in " + label(syms[own])
	case len(in) == len(syms):
		e.hint = "name the module: MODULE!SYMBOL"
	case len(in) == 1:
		e.hint = "give the address: 0xADDR"
	default:
		e.hint = "name the module, MODULE!SYMBOL, or give the address, 0xADDR"
	}
	return e
}

// position is the address of a symbol, or why it has none.
func position(f found) string {
	switch f.sym.Type {
	case symbol.TLS:
		return "(thread-local)"
	case symbol.IFunc:
		return "(IFUNC)"
	}
	return fmt.Sprintf("at 0x%x", f.addr)
}

func (r *resolver) unknownModule(spec Spec) error {
	var names []string
	for _, m := range r.modules {
		names = append(names, m.base())
	}
	e := r.fail(spec, "unknown module %q%s", spec.place.module, r.suggest(nearest(spec.place.module, names)))
	e.cause = ErrNotFound
	e.hint = fmt.Sprintf("/proc/%d/maps has the mapped files", r.p.PID())
	return e
}

func (r *resolver) unknownSymbol(spec Spec, modules []*module) error {
	// The shortest reading is what was meant: the longer ones have the offsets in the name.
	name := spec.place.readings[0].base
	for _, read := range spec.place.readings {
		if len(read.base) < len(name) {
			name = read.base
		}
	}
	names, of := []string(nil), map[string]string{}
	for _, m := range modules {
		for _, sym := range r.candidates(m, spec.Access) {
			for _, n := range []string{sym.Name, sym.Demangled} {
				if of[n] == "" {
					names, of[n] = append(names, n), m.base()
				}
			}
		}
	}
	where := ""
	if spec.place.module != "" {
		where = " in " + spec.place.module
	}
	near := nearest(name, names)
	for i, n := range near {
		near[i] = of[n] + "!" + n
	}
	e := r.fail(spec, "unknown symbol %q%s%s", name, where, r.suggest(near))
	e.cause = ErrNotFound
	e.hint = symbolHint(name, spec.Access, r.p.PID(), of)
	return e
}

// symbolHint says what to do about a name that is not among the symbols.
func symbolHint(name, access string, pid int, symbols map[string]string) string {
	whole, _, part := strings.Cut(strings.ReplaceAll(name, "[", "."), ".")
	switch {
	case len(symbols) == 0:
		return "there are no symbols: name places as MODULE+OFFSET or 0xADDR"
	case len(name) >= 6 && strings.Trim(name, "0123456789abcdefABCDEF") == "":
		return fmt.Sprintf("an address begins with 0x: 0x%s", name)
	case part && symbols[whole] != "":
		return fmt.Sprintf("a field or element is %s+OFFSET: ptype /o of gdb, or pahole, print the offsets", whole)
	case access == Execute:
		return "nm prints the functions of a file"
	}
	return fmt.Sprintf("xw-open --pid %d --list prints what can be watched by name; a local variable has only an address, 0xADDR", pid)
}

// candidates lists the symbols of a module that an access can mean: functions are executed, data is read and written. A
// damaged table is remembered.
func (s *space) candidates(m *module, access string) []symbol.Sym {
	if m.file == nil {
		return nil
	}
	list := m.file.DataSymbols
	if access == Execute {
		list = m.file.FuncSymbols
	}
	syms, err := list()
	if err != nil {
		s.failed = append(s.failed, fmt.Errorf("%s: %w", m.path, err))
	}
	return syms
}

// suggest writes the nearest names, and why some could not be looked at.
func (r *resolver) suggest(near []string) string {
	var b strings.Builder
	if len(near) > 0 {
		fmt.Fprintf(&b, ", nearest: %s", strings.Join(near, ", "))
	}
	if n := len(r.failed); n > 0 {
		fmt.Fprintf(&b, " (%d files could not be read, the first: %v)", n, r.failed[0])
	}
	return b.String()
}

// nearest picks the names that may have been meant, the likeliest first: those whose last part is the name, then those few
// changes away.
func nearest(name string, names []string) []string {
	type scored struct {
		name  string
		score int
	}
	var all []scored
	limit := max(2, len(name)/3)
	for _, n := range names {
		score := editDistance(fold(name), fold(n), limit)
		if lastPart(n) == lastPart(name) {
			score = 0
		}
		if score <= limit {
			all = append(all, scored{n, score})
		}
	}
	slices.SortFunc(all, func(a, b scored) int { return cmp.Or(cmp.Compare(a.score, b.score), strings.Compare(a.name, b.name)) })
	var out []string
	for _, s := range all[:min(len(all), maxNearest)] {
		out = append(out, s.name)
	}
	return out
}

func fold(s string) string { return strings.ToLower(s) }

// lastPart is the name without namespaces, packages or receivers, in lower case.
func lastPart(s string) string { return fold(s[strings.LastIndexAny(s, ":.")+1:]) }

// editDistance counts the insertions, deletions, replacements and swaps of neighbours that turn a into b (optimal string
// alignment), or returns more than limit as soon as that is certain.
func editDistance(a, b string, limit int) int {
	if len(a)-len(b) > limit || len(b)-len(a) > limit {
		return limit + 1
	}
	prev2, prev, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		least := i
		for j := 1; j <= len(b); j++ {
			replace := prev[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			row[j] = min(prev[j]+1, row[j-1]+1, replace)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], prev2[j-2]+1)
			}
			least = min(least, row[j])
		}
		if least > limit {
			return limit + 1
		}
		prev2, prev, row = prev, row, prev2
	}
	return prev[len(b)]
}
