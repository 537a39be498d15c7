package debuginfo

import (
	"cmp"
	"io"
)

// maxSplit is how many split objects are kept open at a time: each is a file, and the descriptor limit is often 1024.
const maxSplit = 64

// splitObject is an open split object and the skeleton that it belongs to.
type splitObject struct {
	skeleton *unit
	close    func()
}

// drop closes the object; its unit is opened and read again when needed.
func (s splitObject) drop() {
	s.close()
	s.skeleton.unload()
	s.skeleton.full = nil
}

// fullUnit returns the unit that has the entries of a skeleton: the unit itself unless it is split, nil if the split
// object cannot be found.
func (d *Data) fullUnit(u *unit) *unit {
	switch {
	case u.full != nil:
		return u.full
	case u.missing != "":
		return nil
	}
	r := u.readRoot()
	if !r.split {
		u.full = u
		return u
	}
	name, dir := u.str(r.dwoName), u.str(r.dir)
	if u.full = d.fromPackage(r.dwoID); u.full == nil {
		u.full = d.openSplit(u, dir, name, r.dwoID)
	}
	if u.full == nil {
		u.missing = cmp.Or(name, "split object without a name")
		return nil
	}
	u.full.obj.alt = u.obj.alt
	return u.full
}

// openSplit opens the .dwo file of a skeleton and returns its unit, nil if there is none with that id.
func (d *Data) openSplit(sk *unit, dir, name string, id uint64) *unit {
	if d.cfg.Split == nil || name == "" {
		return nil
	}
	get, closeFile := d.cfg.Split(dir, name)
	if get == nil {
		return nil
	}
	full := splitUnit(newObject(get, ".dwo"), id)
	if full == nil {
		closeFile()
		return nil
	}
	if len(d.split) >= maxSplit {
		d.split[0].drop()
		d.split = d.split[1:]
	}
	d.split = append(d.split, splitObject{sk, closeFile})
	return full
}

// splitUnit returns the compilation unit with that id.
func splitUnit(o *object, id uint64) *unit {
	for _, u := range o.readUnits() {
		if (u.kind == unitSplitCompile || u.kind == unitCompile) && u.readRoot().dwoID == id {
			return u
		}
	}
	return nil
}

// Sections of a package's index: those of DWARF 5 section 7.3.5.3 and, where they differ, of the GNU extension before
// it (https://gcc.gnu.org/wiki/DebugFissionDWP). Others are not needed.
func packageSection(version uint32, id uint64) string {
	switch id {
	case 1:
		return ".debug_info.dwo"
	case 3:
		return ".debug_abbrev.dwo"
	case 4:
		return ".debug_line.dwo"
	case 6:
		return ".debug_str_offsets.dwo"
	case 8:
		if version == 5 {
			return ".debug_rnglists.dwo"
		}
	}
	return ""
}

// fromPackage returns the split unit with that id in the .dwp file, nil if it has none.
func (d *Data) fromPackage(id uint64) *unit {
	if !d.packageRead {
		d.packageRead = true
		if d.cfg.Package != nil {
			d.pkg = d.cfg.Package()
		}
	}
	if d.pkg == nil {
		return nil
	}
	parts := packageRow(d.pkg, id)
	if parts == nil {
		return nil
	}
	get := func(name string) *io.SectionReader {
		if name == ".debug_str.dwo" {
			return d.pkg(name)
		}
		return parts[name]
	}
	return splitUnit(newObject(get, ".dwo"), id)
}

// packageRow looks the id up in the hash table of .debug_cu_index and returns the parts of the sections that its row
// names.
func packageRow(pkg Sections, id uint64) map[string]*io.SectionReader {
	src := pkg(".debug_cu_index")
	if src == nil {
		return nil
	}
	c := newCursor(src, 0, src.Size())
	version := uint32(c.uint(4)) & 0xffff
	columns, units, slots := c.uint(4), c.uint(4), c.uint(4)
	if version != 2 && version != 5 || columns > 16 || slots == 0 || slots&(slots-1) != 0 {
		return nil
	}
	const header = 16
	row := hashRow(c, header, slots, id)
	if row == 0 || row > units || c.err != nil {
		return nil
	}
	names := header + int64(slots*12)
	offsets := names + int64(columns*4)
	sizes := offsets + int64(units*columns*4)
	at := int64((row - 1) * columns * 4)
	out := map[string]*io.SectionReader{}
	for i := range int64(columns) {
		read := func(off int64) uint64 {
			c.seek(off + i*4)
			return c.uint(4)
		}
		name, off, size := packageSection(version, read(names)), int64(read(offsets+at)), int64(read(sizes+at))
		whole := pkg(name)
		if name == "" || whole == nil || c.err != nil || off > whole.Size() || size > whole.Size()-off {
			continue
		}
		out[name] = io.NewSectionReader(whole, off, size)
	}
	return out
}

// hashRow returns the row of an id, 0 if it is not there.
func hashRow(c *cursor, header int64, slots, id uint64) uint64 {
	mask := slots - 1
	step := (id>>32)&mask | 1
	for i, probes := id&mask, uint64(0); probes < slots && c.err == nil; i, probes = (i+step)&mask, probes+1 {
		c.seek(header + int64(i*8))
		found := c.uint(8)
		c.seek(header + int64(slots*8+i*4))
		row := c.uint(4)
		if found == id || row == 0 {
			return row
		}
	}
	return 0
}
