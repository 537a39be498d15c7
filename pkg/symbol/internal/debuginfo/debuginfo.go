// Package debuginfo reads from DWARF 2 to 5 what places an address in the source: line tables, functions and inlined
// calls, of plain, split and shared debug files. It reads only the units that hold the addresses asked for, through
// windows of the sections, and trusts nothing in them: damaged data gives an unknown place, never a panic, and every
// table is bounded.
package debuginfo

import (
	"cmp"
	"debug/dwarf"
	"slices"
	"sort"
)

// Config says where the debug sections of one program or library are.
type Config struct {
	// Sections are those of the file itself or of its separate debug file.
	Sections Sections
	// Text are the file's executable address ranges [low, high): debug data about other addresses is what linkers
	// leave of dropped functions.
	Text [][2]uint64
	// Split opens the split object (.dwo) of that name, relative to the compilation directory dir, and returns its
	// sections and what closes it; nil sections if there is none. May be nil.
	Split func(dir, name string) (Sections, func())
	// Package opens the package of split objects (.dwp); nil if there is none. May be nil.
	Package func() Sections
	// Supplement opens the file that common entries were moved to (.gnu_debugaltlink); nil if there is none. May be nil.
	Supplement func() Sections
}

// Data is the debug information of one program or library. It is not safe for concurrent use.
type Data struct {
	cfg         Config
	main        *object
	text        []span
	units       []unitSpan // by lo
	maxEnd      []uint64   // maxEnd[i]: highest end among units[:i+1]
	indexed     bool
	split       []splitObject
	pkg         Sections
	packageRead bool
	cached      []*unit // units with tables in memory
	cachedSize  int     // rows and scopes in them
}

// unitSpan is a part of a unit's code.
type unitSpan struct {
	span
	unit *unit
}

// Place is where an address is in the source. What is not known is empty.
type Place struct {
	File string
	Line int // 0 if unknown or if the code comes from no line
	// Func is the function whose code this is after inlining: linkage name, else the plain name.
	Func string
	// Start is the address where the part of Func that holds the address begins; only with Func.
	Start uint64
	// Calls are the inlined calls around the address, innermost first.
	Calls []Call
	// MissingSplit is the name of the split object that would tell more and was not found.
	MissingSplit string
}

// Call is a call that the compiler inlined.
type Call struct {
	Func string // the function that was called: linkage name, else the plain name
	File string // where it was called
	Line int
}

// New returns the debug information in the given sections. Nothing is read yet.
func New(cfg Config) *Data {
	d := &Data{cfg: cfg, main: newObject(cfg.Sections, "")}
	for _, t := range cfg.Text {
		d.text = append(d.text, span{t[0], t[1]})
	}
	if cfg.Supplement != nil {
		d.main.alt = supplement(cfg.Supplement)
	}
	return d
}

// supplement opens the supplementary file once, when it is needed.
func supplement(open func() Sections) func() *object {
	var alt *object
	opened := false
	return func() *object {
		if !opened {
			opened = true
			if get := open(); get != nil {
				alt = newObject(get, "")
			}
		}
		return alt
	}
}

// Close closes the split objects that are open.
func (d *Data) Close() {
	for _, s := range d.split {
		s.drop()
	}
	d.split = nil
}

// Find returns the place of an ELF address, ok false if no unit knows anything about it.
func (d *Data) Find(pc uint64) (Place, bool) {
	d.index()
	n := sort.Search(len(d.units), func(i int) bool { return d.units[i].lo > pc })
	for i := n - 1; i >= 0 && d.maxEnd[i] > pc; i-- {
		if d.units[i].hi <= pc {
			continue
		}
		if p, ok := d.findIn(d.units[i].unit, pc); ok {
			return p, true
		}
	}
	return Place{}, false
}

// maxUnitSpans bounds the index; a program of a million functions, each in a section of its own, has as many.
const maxUnitSpans = 4 << 20

// index reads every unit's root entry for the addresses it covers. Units are not read further.
func (d *Data) index() {
	if d.indexed {
		return
	}
	d.indexed = true
	read := 0
	for _, u := range d.main.readUnits() {
		if read > maxUnitSpans {
			break
		}
		if u.kind != unitCompile && u.kind != unitSkeleton {
			continue
		}
		r := u.readRoot()
		if r.tag != dwarf.TagCompileUnit && r.tag != dwarf.TagSkeletonUnit {
			continue
		}
		spans := u.spans(u, r.low, r.high, r.ranges)
		read += len(spans)
		for _, s := range spans {
			if within(d.text, s.lo) {
				d.units = append(d.units, unitSpan{s, u})
			}
		}
	}
	slices.SortStableFunc(d.units, func(a, b unitSpan) int { return cmp.Compare(a.lo, b.lo) })
	d.maxEnd = make([]uint64, len(d.units))
	var end uint64
	for i, s := range d.units {
		end = max(end, s.hi)
		d.maxEnd[i] = end
	}
}

// findIn returns what a unit knows about an address.
func (d *Data) findIn(u *unit, pc uint64) (Place, bool) {
	d.load(u)
	var p Place
	found := false
	if u.lines != nil {
		if r, ok := u.lines.find(pc); ok {
			p.File, p.Line, found = u.lines.file(uint64(r.file)), int(r.line), true
		}
	}
	full := d.fullUnit(u)
	if full == nil {
		p.MissingSplit = u.missing
		return p, found
	}
	i := u.scopes.innermost(pc)
	for ; i >= 0 && u.scopes.scopes[i].inlined; i = u.scopes.scopes[i].parent {
		s := &u.scopes.scopes[i]
		call := Call{Func: u.scopes.funcName(full, s.off), Line: int(s.callLine)}
		if u.lines != nil {
			call.File = u.lines.file(uint64(s.callFile))
		}
		p.Calls = append(p.Calls, call)
	}
	if i >= 0 {
		p.Func, p.Start = u.scopes.funcName(full, u.scopes.scopes[i].off), u.scopes.start(i, pc)
	}
	return p, found || i >= 0
}

// maxCached bounds the rows and scopes in memory, 16 to 40 bytes each; beyond it all tables are dropped and read again
// when needed.
const maxCached = 4 << 20

// load reads a unit's line table and scopes if they are not in memory.
func (d *Data) load(u *unit) {
	if u.loaded {
		return
	}
	if d.cachedSize > maxCached {
		for _, old := range d.cached {
			old.unload()
		}
		d.cached, d.cachedSize = nil, 0
	}
	u.loaded = true
	u.lines = u.readLines(d.text)
	if u.lines != nil {
		d.cachedSize += len(u.lines.rows)
	}
	if full := d.fullUnit(u); full != nil {
		u.scopes = full.readScopes(u)
		d.cachedSize += len(u.scopes.spans) + len(u.scopes.scopes) + len(u.scopes.holders) + 2*len(u.scopes.heldBy)
	}
	d.cached = append(d.cached, u)
}
