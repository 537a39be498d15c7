package debuginfo

import (
	"debug/dwarf"
	"path"
	"strings"
)

// GNU attributes of split DWARF before version 5, and of names (gcc's include/dwarf2.def).
const (
	attrMIPSLinkageName = dwarf.Attr(0x2007)
	attrGNUDwoName      = dwarf.Attr(0x2130)
	attrGNUDwoID        = dwarf.Attr(0x2131)
	attrGNURangesBase   = dwarf.Attr(0x2132)
	attrGNUAddrBase     = dwarf.Attr(0x2133)
)

// root is what is kept of a unit's first entry.
type root struct {
	tag        dwarf.Tag
	low, high  value
	ranges     value
	lines      value // offset into .debug_line
	name       value
	dir        value
	dwoName    value
	dwoID      uint64
	addrBase   uint64
	strBase    uint64
	rngBase    uint64 // of DW_FORM_rnglistx
	rangesBase uint64 // added to offsets into .debug_ranges in the split unit
	split      bool   // the unit's entries are in a split object
}

// readRoot reads the unit's first entry, once.
func (u *unit) readRoot() *root {
	if u.rootRead {
		return &u.root
	}
	u.rootRead = true
	r := &u.root
	r.dwoID = u.id
	if u.version >= 5 { // where a split object has no base attribute the table begins after its header
		r.strBase, r.rngBase, r.addrBase = 8, 12, 8
		if u.is64 {
			r.strBase, r.rngBase, r.addrBase = 16, 20, 16
		}
	}
	a, ok := u.entry(u.first, r.set)
	if !ok {
		*r = root{}
		return r
	}
	r.tag = a.tag
	r.split = r.dwoName.ok() && u.kind != unitSplitCompile && u.obj.suffix == ""
	return r
}

func (r *root) set(a *attribute, v value) {
	switch a.name {
	case dwarf.AttrLowpc:
		r.low = v
	case dwarf.AttrHighpc:
		r.high = v
	case dwarf.AttrRanges:
		r.ranges = v
	case dwarf.AttrStmtList:
		r.lines = v
	case dwarf.AttrName:
		r.name = v
	case dwarf.AttrCompDir:
		r.dir = v
	case dwarf.AttrDwoName, attrGNUDwoName:
		r.dwoName = v
	case attrGNUDwoID:
		r.dwoID = v.n
	case dwarf.AttrAddrBase, attrGNUAddrBase:
		r.addrBase = v.n
	case dwarf.AttrStrOffsetsBase:
		r.strBase = v.n
	case dwarf.AttrRnglistsBase:
		r.rngBase = v.n
	case attrGNURangesBase:
		r.rangesBase = v.n
	}
}

// str returns the string that v stands for, "" if it cannot be read.
func (u *unit) str(v value) string {
	o := u.obj
	switch v.form {
	case formString:
		return stringAt(o.section(".debug_info"), v.n)
	case formStrp:
		return stringAt(o.section(".debug_str"), v.n)
	case formLineStrp:
		return stringAt(o.get(".debug_line_str"), v.n)
	case formGNUStrpAlt, formStrpSup:
		if alt := o.supplement(); alt != nil {
			return stringAt(alt.section(".debug_str"), v.n)
		}
	case formStrx, formStrx1, formStrx2, formStrx3, formStrx4, formGNUStrIndex:
		if v.n > 1<<40 {
			return ""
		}
		c := o.cursor(".debug_str_offsets", int64(u.readRoot().strBase+v.n*uint64(u.offsetSize())))
		if off := c.uint(u.offsetSize()); c.err == nil {
			return stringAt(o.section(".debug_str"), off)
		}
	}
	return ""
}

// supplement returns the shared file that dwz moved common entries to, or nil.
func (o *object) supplement() *object {
	if o.alt == nil {
		return nil
	}
	return o.alt()
}

// skeleton is the unit in the program that says where the unit's addresses and lines are: itself unless it is split.
type skeleton = unit

// address returns the address that v stands for. Indexes go into the .debug_addr of the program, by the base that the
// skeleton has.
func (u *unit) address(sk *skeleton, v value) (uint64, bool) {
	switch v.form {
	case formAddr:
		return v.n, true
	case formAddrx, formAddrx1, formAddrx2, formAddrx3, formAddrx4, formGNUAddrIndex:
		return sk.indexedAddress(v.n)
	}
	return 0, false
}

func (sk *skeleton) indexedAddress(i uint64) (uint64, bool) {
	if i > 1<<40 {
		return 0, false
	}
	c := sk.obj.cursor(".debug_addr", int64(sk.readRoot().addrBase+i*uint64(sk.addrSize)))
	addr := c.uint(int(sk.addrSize))
	return addr, c.err == nil
}

// isAddress reports whether a form is an address; DW_AT_high_pc is a length otherwise.
func isAddress(form uint64) bool {
	switch form {
	case formAddr, formAddrx, formAddrx1, formAddrx2, formAddrx3, formAddrx4, formGNUAddrIndex:
		return true
	}
	return false
}

// joinPath joins a directory and a file name as compilers mean them, whatever system they ran on.
func joinPath(dir, name string) string {
	if name == "" || dir == "" || path.IsAbs(name) || len(name) > 2 && name[1] == ':' {
		return name
	}
	if strings.Contains(dir, `\`) {
		return strings.TrimSuffix(dir, `\`) + `\` + name
	}
	return path.Join(dir, name)
}
