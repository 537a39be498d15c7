package debuginfo

import (
	"fmt"
	"io"
	"sort"
)

// Sections returns a debug section by name (".debug_info"), decompressed, and nil if the object has none.
type Sections func(name string) *io.SectionReader

// object is one file's debug sections: the program's, those of a split object, or a shared supplementary file's.
type object struct {
	get     Sections
	suffix  string // ".dwo" for the sections of a split object
	cursors map[string]*cursor
	abbrevs map[abbrevKey]*abbrevs
	kept    int     // attributes in abbrevs
	budget  int     // attributes and ranges that may still be read
	units   []*unit // by offset
	read    bool    // units were read
	alt     func() *object
}

// abbrevKey tells abbreviation tables apart; the format decides the sizes kept in them.
type abbrevKey struct {
	off uint64
	format
}

func newObject(get Sections, suffix string) *object {
	return &object{get: get, suffix: suffix, cursors: map[string]*cursor{}, abbrevs: map[abbrevKey]*abbrevs{}, budget: maxWork}
}

// maxWork bounds what can be referred to any number of times: attributes of abbreviations and entries of range lists. A
// thousand units of the largest programs take a tenth of it; crafted data, in which everything refers to one huge list,
// ends there.
const maxWork = 1 << 28

// spend takes n from the budget and reports whether there is any left.
func (o *object) spend(n int) bool {
	o.budget -= n
	return o.budget > 0
}

// maxKeptAttributes bounds the abbreviations in memory, 24 bytes an attribute; beyond it all are read again when needed.
const maxKeptAttributes = 2 << 20

// cursor returns the object's cursor of a section, at off and without an error. There is one per section: the next
// call moves it.
func (o *object) cursor(name string, off int64) *cursor {
	c := o.cursors[name]
	if c == nil {
		src := o.section(name)
		c = newCursor(src, 0, 0)
		if src != nil {
			c.end = src.Size()
		}
		o.cursors[name] = c
	}
	c.err = nil
	c.seek(off)
	return c
}

func (o *object) section(name string) *io.SectionReader { return o.get(name + o.suffix) }

// Unit types of DWARF 5, section 7.5.1.
const (
	unitCompile      = 1
	unitType         = 2
	unitSkeleton     = 4
	unitSplitCompile = 5
	unitSplitType    = 6
)

// maxUnits bounds the units of an object; the largest browsers have some 50 000.
const maxUnits = 1 << 19

// unit is one unit of .debug_info.
type unit struct {
	format
	obj       *object
	off       int64 // of the header
	first     int64 // of the root entry
	end       int64
	kind      uint8
	abbrevOff uint64
	id        uint64 // of a skeleton or split unit, DWARF 5
	rootRead  bool
	root      root
	full      *unit  // the split unit of a skeleton, itself for others; nil until asked for
	missing   string // name of the split object that was not found
	loaded    bool   // lines and scopes were read; either is nil where there is none
	lines     *lineTable
	scopes    *scopeTable
}

func (u *unit) unload() { u.loaded, u.lines, u.scopes = false, nil, nil }

// readUnits reads all unit headers. What cannot be read ends the list: the units before it are good.
func (o *object) readUnits() []*unit {
	if o.read {
		return o.units
	}
	o.read = true
	src := o.section(".debug_info")
	if src == nil {
		return nil
	}
	for off := int64(0); off < src.Size() && len(o.units) < maxUnits; {
		u, err := o.readUnit(off)
		if err != nil {
			break
		}
		if u.version >= 2 && u.version <= 5 { // a later version has a length all the same
			o.units = append(o.units, u)
		}
		off = u.end
	}
	return o.units
}

func (o *object) readUnit(off int64) (*unit, error) {
	c := o.cursor(".debug_info", off)
	u := &unit{obj: o, off: off, kind: unitCompile}
	n, is64 := c.unitLength()
	if c.err == nil && n > uint64(c.left()) {
		c.fail("unit beyond the end of the section")
	}
	u.is64, u.end = is64, c.offset()+int64(n)
	u.version = uint16(c.uint(2))
	if u.version >= 5 {
		u.kind, u.addrSize = c.u8(), c.u8()
		u.abbrevOff = c.uint(u.offsetSize())
	} else {
		u.abbrevOff = c.uint(u.offsetSize())
		u.addrSize = c.u8()
	}
	switch u.kind {
	case unitSkeleton, unitSplitCompile:
		u.id = c.uint(8)
	case unitType, unitSplitType:
		c.skip(8 + uint64(u.offsetSize()))
	}
	u.first = c.offset()
	if u.addrSize != 4 && u.addrSize != 8 {
		c.fail(fmt.Sprintf("address size %d", u.addrSize))
	}
	if u.end <= off {
		c.fail("empty unit")
	}
	return u, c.err
}

// unitAt returns the unit that holds the entry at off, or nil.
func (o *object) unitAt(off int64) *unit {
	units := o.readUnits()
	i := sort.Search(len(units), func(i int) bool { return units[i].off > off }) - 1
	if i < 0 || off < units[i].first || off >= units[i].end {
		return nil
	}
	return units[i]
}

// table returns the unit's abbreviations, nil if they are damaged.
func (u *unit) table() *abbrevs {
	key := abbrevKey{u.abbrevOff, u.format}
	if t, ok := u.obj.abbrevs[key]; ok {
		return t
	}
	c := u.obj.cursor(".debug_abbrev", int64(u.abbrevOff))
	t := readAbbrevs(c, u.format, 0)
	if !u.obj.spend(t.size) || c.err != nil {
		t = nil
	}
	if u.obj.kept > maxKeptAttributes {
		clear(u.obj.abbrevs)
		u.obj.kept = 0
	}
	u.obj.abbrevs[key] = t
	if t != nil {
		u.obj.kept += t.size
	}
	return t
}

// entry reads the entry at off and calls attr for each of its attributes. It reports whether the entry could be read.
func (u *unit) entry(off int64, attr func(a *attribute, v value)) (*abbrev, bool) {
	c := u.obj.cursor(".debug_info", off)
	code := c.uleb()
	var a *abbrev
	switch t := u.obj.abbrevs[abbrevKey{u.abbrevOff, u.format}]; {
	case t != nil:
		a = t.get(code)
	case off == u.first: // the root alone: no need for the whole table
		t = readAbbrevs(u.obj.cursor(".debug_abbrev", int64(u.abbrevOff)), u.format, code)
		if a = t.get(code); !u.obj.spend(t.size) {
			return nil, false
		}
	default:
		if t = u.table(); t != nil {
			a = t.get(code)
		}
	}
	if a == nil || code == 0 || c.err != nil {
		return nil, false
	}
	for i := range a.attrs {
		v := u.readValue(c, a.attrs[i].form, a.attrs[i].implicit)
		if c.err != nil {
			return nil, false
		}
		attr(&a.attrs[i], v)
	}
	return a, true
}
