package debuginfo

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// maxRows bounds the rows kept of one line table; a unit of a million lines has about two million.
const maxRows = 4 << 20

// row is one row of a line table: the code from addr to the next row's comes from that line.
type row struct {
	addr uint64
	file uint32
	line uint32 // 0 if it comes from no line
}

// sequence is a run of rows with rising addresses, rows[first:end], that covers [lo, hi).
type sequence struct {
	span
	first, end int
}

// lineTable is the decoded line program of one unit.
type lineTable struct {
	unit  *unit
	dir   string // DW_AT_comp_dir
	v5    bool
	dirs  []value
	files []fileEntry
	rows  []row
	seqs  []sequence // by lo
}

// fileEntry is one file of a line table; names are read when asked for.
type fileEntry struct {
	name value
	dir  uint64
}

// find returns the row for an address.
func (t *lineTable) find(pc uint64) (row, bool) {
	n := sort.Search(len(t.seqs), func(i int) bool { return t.seqs[i].lo > pc })
	for i := n - 1; i >= 0 && i >= n-maxOverlap; i-- {
		s := &t.seqs[i]
		if pc >= s.hi {
			continue
		}
		rows := t.rows[s.first:s.end]
		j := sort.Search(len(rows), func(j int) bool { return rows[j].addr > pc })
		if j > 0 {
			return rows[j-1], true
		}
	}
	return row{}, false
}

// maxFiles bounds the directories and the files of one line table; a unit of a browser names some thousand.
const maxFiles = 1 << 20

// maxOverlap bounds how many sequences before an address are tried: they do not overlap unless the table is damaged.
const maxOverlap = 16

// file returns the path of a file by its number, "" if unknown.
func (t *lineTable) file(n uint64) string {
	if !t.v5 {
		n-- // numbered from 1
	}
	if n >= uint64(len(t.files)) {
		return ""
	}
	f := t.files[n]
	name := t.str(f.name)
	if name == "" {
		return ""
	}
	return joinPath(t.directory(f.dir), name)
}

// directory returns a directory by its number: 0 is the compilation's own.
func (t *lineTable) directory(n uint64) string {
	if !t.v5 {
		if n == 0 {
			return t.dir
		}
		n--
	}
	if n >= uint64(len(t.dirs)) {
		return ""
	}
	return joinPath(t.dir, t.str(t.dirs[n]))
}

// str reads a string of the header: an inline one is in .debug_line.
func (t *lineTable) str(v value) string {
	if v.form == formString {
		return stringAt(t.unit.obj.section(".debug_line"), v.n)
	}
	return t.unit.str(v)
}

// lineHeader is what a line program needs of its header (DWARF 5 section 6.2.4).
type lineHeader struct {
	format
	end        int64
	minInst    uint64
	maxOps     uint64
	lineBase   int64
	lineRange  uint64
	opcodeBase uint8
	lengths    [256]uint8
}

// readLines decodes the unit's line table, nil if it has none or a damaged header. Rows before a damage are kept.
func (u *unit) readLines(text []span) *lineTable {
	v := u.readRoot().lines
	if !v.ok() {
		return nil
	}
	c := u.obj.cursor(".debug_line", int64(v.n))
	t := &lineTable{unit: u}
	h := lineHeader{format: u.format}
	program := t.readHeader(c, &h)
	if c.err != nil {
		return nil
	}
	t.dir = u.str(u.readRoot().dir)
	t.run(u.obj.cursor(".debug_line", program), &h, text)
	slices.SortStableFunc(t.seqs, func(a, b sequence) int { return cmp.Compare(a.lo, b.lo) })
	return t
}

// readHeader reads the header at the cursor and returns where the program begins.
func (t *lineTable) readHeader(c *cursor, h *lineHeader) int64 {
	n, is64 := c.unitLength()
	if n > uint64(c.left()) {
		c.fail("line table beyond the end of the section")
	}
	h.is64, h.end = is64, c.offset()+int64(n)
	h.version = uint16(c.uint(2))
	if h.version < 2 || h.version > 5 {
		c.fail("unknown version of a line table")
		return 0
	}
	if h.version >= 5 {
		h.addrSize = c.u8()
		c.u8() // segment selector size
	}
	length := c.uint(h.offsetSize())
	program := c.offset() + int64(min(length, math.MaxInt32))
	if program > h.end {
		c.fail("line program beyond the end of its table")
	}
	h.minInst, h.maxOps = uint64(c.u8()), 1
	if h.version >= 4 {
		h.maxOps = uint64(c.u8())
	}
	c.u8() // default_is_stmt
	h.lineBase, h.lineRange, h.opcodeBase = int64(int8(c.u8())), uint64(c.u8()), c.u8()
	if h.maxOps == 0 || h.lineRange == 0 || h.opcodeBase == 0 {
		c.fail("line table with a zero where none may be")
	}
	for i := 1; i < int(h.opcodeBase); i++ {
		h.lengths[i] = c.u8()
	}
	if t.v5 = h.version >= 5; t.v5 {
		t.readEntries(c, h, program, func(name value, _ uint64) { t.dirs = append(t.dirs, name) })
		t.readEntries(c, h, program, func(name value, dir uint64) { t.files = append(t.files, fileEntry{name, dir}) })
	} else {
		t.readNames(c, program)
	}
	return program
}

// readNames reads the directories and files of a header of version 2 to 4.
func (t *lineTable) readNames(c *cursor, end int64) {
	for c.err == nil && c.offset() < end && len(t.dirs) < maxFiles {
		v := value{formString, uint64(c.offset())}
		if c.skipString(); uint64(c.offset()) == v.n+1 {
			break
		}
		t.dirs = append(t.dirs, v)
	}
	for c.err == nil && c.offset() < end && len(t.files) < maxFiles && t.readFile(c) {
	}
}

// readFile reads one file entry; an empty name ends the list.
func (t *lineTable) readFile(c *cursor) bool {
	v := value{formString, uint64(c.offset())}
	if c.skipString(); uint64(c.offset()) == v.n+1 || c.err != nil {
		return false
	}
	t.files = append(t.files, fileEntry{v, c.uleb()})
	c.uleb() // modification time
	c.uleb() // length
	return true
}

// Content types of a DWARF 5 line table's entries, section 6.2.4.1.
const (
	contentPath      = 1
	contentDirectory = 2
)

// readEntries reads a list of directories or files in the self-describing form of DWARF 5.
func (t *lineTable) readEntries(c *cursor, h *lineHeader, end int64, add func(name value, dir uint64)) {
	type pair struct{ content, form uint64 }
	var layout [256]pair
	n := int(c.u8())
	for i := range n {
		layout[i] = pair{c.uleb(), c.uleb()}
	}
	count := c.uleb()
	if n == 0 && count > 0 || count > maxFiles || count > uint64(max(0, end-c.offset())) { // each takes a byte at least
		c.fail("more entries in a line table than fit")
		return
	}
	for ; count > 0 && c.err == nil; count-- {
		var name value
		var dir uint64
		for _, p := range layout[:n] {
			v := h.readValue(c, p.form, 0)
			switch p.content {
			case contentPath:
				name = v
			case contentDirectory:
				dir = v.n
			}
		}
		add(name, dir)
	}
}
