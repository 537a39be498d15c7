package debuginfo

import (
	"cmp"
	"debug/dwarf"
	"iter"
	"math"
	"slices"
	"sort"
)

// Bounds on one unit's scopes; a unit of a million lines has about as many.
const (
	maxScopes = 2 << 20
	maxDepth  = 4096 // of nested entries
)

// scope is a function or an inlined call that has code of its own.
type scope struct {
	off      int64 // of its entry in .debug_info
	parent   int32 // index of the scope around it, -1 for none
	inlined  bool
	callFile uint32 // where it was called, for an inlined call
	callLine uint32
}

// scopeSpan is a part of a scope's code.
type scopeSpan struct {
	span
	scope int32
}

// scopeTable holds the scopes of one unit, each before those inside of it.
type scopeTable struct {
	scopes  []scope
	spans   []scopeSpan // by lo
	maxEnd  []uint64    // maxEnd[i]: highest end among spans[:i+1]
	holders []holder
	heldBy  map[int64]int32 // holder of each function without a linkage name, by the offset of its entry
}

// holder is a namespace or a type, which qualifies the names in it.
type holder struct {
	off    int64 // of its entry
	parent int32 // index of the one around it, -1 for none
}

// around yields the parts of scopes that hold an address.
func (t *scopeTable) around(pc uint64) iter.Seq[scopeSpan] {
	return func(yield func(scopeSpan) bool) {
		n := sort.Search(len(t.spans), func(i int) bool { return t.spans[i].lo > pc })
		for i := n - 1; i >= 0 && t.maxEnd[i] > pc; i-- {
			if t.spans[i].hi > pc && !yield(t.spans[i]) {
				return
			}
		}
	}
}

// innermost returns the index of the innermost scope around an address, -1 if there is none. Entries nest, so that of
// the scopes around one address the innermost comes last.
func (t *scopeTable) innermost(pc uint64) int32 {
	best := int32(-1)
	for s := range t.around(pc) {
		best = max(best, s.scope)
	}
	return best
}

// start returns where the part of a scope's code that holds pc begins.
func (t *scopeTable) start(scope int32, pc uint64) uint64 {
	for s := range t.around(pc) {
		if s.scope == scope {
			return s.lo
		}
	}
	return pc
}

// readScopes walks all entries of u, the full unit of the skeleton sk.
func (u *unit) readScopes(sk *skeleton) *scopeTable {
	w := &walker{u: u, sk: sk, t: &scopeTable{heldBy: map[int64]int32{}}}
	if abbrevs := u.table(); abbrevs != nil {
		w.walk(u.obj.cursor(".debug_info", u.first), abbrevs)
	}
	slices.SortStableFunc(w.t.spans, func(a, b scopeSpan) int { return cmp.Compare(a.lo, b.lo) })
	w.t.maxEnd = make([]uint64, len(w.t.spans))
	var end uint64
	for i, s := range w.t.spans {
		end = max(end, s.hi)
		w.t.maxEnd[i] = end
	}
	return w.t
}

type walker struct {
	u, sk *unit
	t     *scopeTable
	stack []level
}

// level is what is around the entries of one level; -1 is nothing.
type level struct{ scope, holder int32 }

func (w *walker) walk(c *cursor, table *abbrevs) {
	current := level{-1, -1}
	for c.err == nil && c.offset() < w.u.end && len(w.t.spans) < maxScopes {
		off := c.offset()
		code := c.uleb()
		if code == 0 { // the end of the current level
			if len(w.stack) == 0 {
				return
			}
			current = w.stack[len(w.stack)-1]
			w.stack = w.stack[:len(w.stack)-1]
			continue
		}
		a := table.get(code)
		if a == nil {
			return
		}
		inner := current
		switch a.tag {
		case dwarf.TagSubprogram, dwarf.TagInlinedSubroutine:
			inner.scope = w.function(c, a, off, current)
		case dwarf.TagNamespace, dwarf.TagClassType, dwarf.TagStructType, dwarf.TagUnionType:
			if a.children && len(w.t.holders) < maxScopes {
				inner.holder = int32(len(w.t.holders))
				w.t.holders = append(w.t.holders, holder{off, current.holder})
			}
			w.u.skipValues(c, a)
		default:
			w.u.skipValues(c, a)
		}
		if a.children {
			if len(w.stack) >= maxDepth {
				return
			}
			w.stack = append(w.stack, current)
			current = inner
		}
	}
}

func (u *unit) skipValues(c *cursor, a *abbrev) {
	if a.fixed >= 0 {
		c.skip(uint64(a.fixed))
		return
	}
	for i := range a.attrs {
		u.readValue(c, a.attrs[i].form, a.attrs[i].implicit)
	}
}

// function reads a subprogram or an inlined call and returns the scope of its children: its own when it has code.
func (w *walker) function(c *cursor, a *abbrev, off int64, around level) int32 {
	var low, high, ranges value
	plain, linked := false, false
	s := scope{off: off, parent: around.scope, inlined: a.tag == dwarf.TagInlinedSubroutine}
	for i := range a.attrs {
		v := w.u.readValue(c, a.attrs[i].form, a.attrs[i].implicit)
		switch a.attrs[i].name {
		case dwarf.AttrLowpc:
			low = v
		case dwarf.AttrHighpc:
			high = v
		case dwarf.AttrRanges:
			ranges = v
		case dwarf.AttrName:
			plain = true
		case dwarf.AttrLinkageName, attrMIPSLinkageName:
			linked = true
		case dwarf.AttrCallFile:
			s.callFile = uint32(min(v.n, math.MaxUint32))
		case dwarf.AttrCallLine:
			s.callLine = uint32(min(v.n, math.MaxUint32))
		}
	}
	if c.err != nil {
		return around.scope
	}
	if plain && !linked && around.holder >= 0 {
		w.t.heldBy[off] = around.holder
	}
	spans := w.u.spans(w.sk, low, high, ranges)
	if len(spans) == 0 {
		return around.scope
	}
	index := int32(len(w.t.scopes))
	w.t.scopes = append(w.t.scopes, s)
	for _, p := range spans {
		w.t.spans = append(w.t.spans, scopeSpan{p, index})
	}
	return index
}

// maxOrigins bounds how many entries a name is looked for in: an inlined call refers to its abstract instance, that to
// a declaration.
const maxOrigins = 8

// funcName returns the name of the function that the entry at off of the full unit u stands for: its linkage name where
// there is one, else the name in the source with the namespaces and types that t knows around it, else "".
func (t *scopeTable) funcName(full *unit, off int64) string {
	plain := ""
	u := full
	for range maxOrigins {
		var name, linkage, origin value
		_, ok := u.entry(off, func(a *attribute, v value) {
			switch a.name {
			case dwarf.AttrName:
				name = v
			case dwarf.AttrLinkageName, attrMIPSLinkageName:
				linkage = v
			case dwarf.AttrAbstractOrigin, dwarf.AttrSpecification:
				origin = v
			}
		})
		if !ok {
			break
		}
		if s := u.str(linkage); s != "" {
			return s
		}
		if s := u.str(name); plain == "" && s != "" {
			plain = s
			if h, held := t.heldBy[off]; held && u == full {
				plain = t.qualify(u, h, s)
			}
		}
		if u, off = u.target(origin); u == nil {
			break
		}
	}
	return plain
}

// qualify puts the names of a holder and of those around it before a name.
func (t *scopeTable) qualify(u *unit, h int32, name string) string {
	const levels = 32
	for range levels {
		if h < 0 {
			break
		}
		around := ""
		a, ok := u.entry(t.holders[h].off, func(a *attribute, v value) {
			if a.name == dwarf.AttrName {
				around = u.str(v)
			}
		})
		switch {
		case !ok:
			return name
		case around != "":
		case a.tag == dwarf.TagNamespace:
			around = "(anonymous namespace)"
		default: // that of a lambda, among others
			around = "(anonymous class)"
		}
		name, h = around+"::"+name, t.holders[h].parent
	}
	return name
}

// target returns the unit and the offset of the entry that a reference points to, nil if it points to none.
func (u *unit) target(v value) (*unit, int64) {
	if v.n > math.MaxInt64/2 {
		return nil, 0
	}
	off := int64(v.n)
	switch v.form {
	case formRef1, formRef2, formRef4, formRef8, formRefUdata:
		if off += u.off; off < u.first || off >= u.end {
			return nil, 0
		}
		return u, off
	case formRefAddr:
		return u.obj.unitAt(off), off
	case formGNURefAlt, formRefSup4, formRefSup8:
		if alt := u.obj.supplement(); alt != nil {
			return alt.unitAt(off), off
		}
	}
	return nil, 0
}
