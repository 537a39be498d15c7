package symbol

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// ErrNotELF is matched by the error of Open when the file is no ELF file at all.
var ErrNotELF = errors.New("not an ELF file")

// Bounds on what is read from one file. The tables of a file are never larger than the file itself; these limits keep
// a crafted, mostly empty file from costing more than that. The largest tables seen in practice (an unstripped
// browser) stay below a third of them.
const (
	maxSections  = 1 << 17
	maxTable     = 256 << 20 // bytes of a symbol, string or relocation table
	maxSmall     = 1 << 20   // bytes of a note, .dynamic, .interp or .gnu_debuglink section
	maxNameBytes = 16 << 10  // bytes of a symbol's name; a longer one is dropped
)

// image is the parsed header of one ELF file: its segments and sections. debug/elf is not hardened against hostile
// files and copies every name, so the tables are decoded here with bounds; its types and constants serve.
type image struct {
	r        io.ReaderAt
	size     int64
	class    elf.Class
	machine  elf.Machine
	typ      elf.Type
	entry    uint64
	segs     []elf.ProgHeader
	sections []elf.SectionHeader
}

// readImage parses the ELF header, the program headers and the section headers of r, which holds size bytes.
func readImage(r io.ReaderAt, size int64) (*image, error) {
	im := &image{r: r, size: size}
	ident, err := im.read(0, elf.EI_NIDENT, elf.EI_NIDENT)
	if err != nil || string(ident[:4]) != elf.ELFMAG {
		if err != nil && size >= elf.EI_NIDENT {
			return nil, err
		}
		return nil, ErrNotELF
	}
	im.class = elf.Class(ident[elf.EI_CLASS])
	if elf.Data(ident[elf.EI_DATA]) != elf.ELFDATA2LSB {
		return nil, errors.New("not little-endian")
	}
	h, err := im.header()
	if err != nil {
		return nil, err
	}
	im.machine, im.typ, im.entry = elf.Machine(h.Machine), elf.Type(h.Type), h.Entry
	if err := im.readSegments(h); err != nil {
		return nil, fmt.Errorf("program headers: %w", err)
	}
	if err := im.readSections(h); err != nil {
		return nil, fmt.Errorf("section headers: %w", err)
	}
	return im, nil
}

// read returns n bytes at off; limit bounds n.
func (im *image) read(off, n, limit uint64) ([]byte, error) {
	if n > limit {
		return nil, fmt.Errorf("%d bytes at %#x: more than the limit of %d", n, off, limit)
	}
	if off > uint64(im.size) || n > uint64(im.size)-off {
		return nil, fmt.Errorf("%d bytes at %#x: beyond the end of the file (%d bytes)", n, off, im.size)
	}
	b := make([]byte, n)
	if got, err := im.r.ReadAt(b, int64(off)); got < len(b) {
		return nil, fmt.Errorf("%d bytes at %#x: %w", n, off, err)
	}
	return b, nil
}

// decode reads a fixed-size little-endian structure.
func (im *image) decode(off uint64, v any) error {
	n := uint64(binary.Size(v))
	b, err := im.read(off, n, n)
	if err != nil {
		return err
	}
	_, err = binary.Decode(b, binary.LittleEndian, v)
	return err
}

// header reads the file header, a 32-bit one widened.
func (im *image) header() (elf.Header64, error) {
	switch im.class {
	case elf.ELFCLASS64:
		var h elf.Header64
		err := im.decode(0, &h)
		return h, err
	case elf.ELFCLASS32:
		var h elf.Header32
		err := im.decode(0, &h)
		return elf.Header64{Type: h.Type, Machine: h.Machine, Entry: uint64(h.Entry), Phoff: uint64(h.Phoff),
			Shoff: uint64(h.Shoff), Phentsize: h.Phentsize, Phnum: h.Phnum, Shentsize: h.Shentsize, Shnum: h.Shnum,
			Shstrndx: h.Shstrndx}, err
	}
	return elf.Header64{}, fmt.Errorf("unknown class %d", im.class)
}

func (im *image) readSegments(h elf.Header64) error {
	want := 56
	if im.class == elf.ELFCLASS32 {
		want = 32
	}
	if h.Phnum == 0 {
		return nil
	}
	if int(h.Phentsize) != want {
		return fmt.Errorf("entry size %d, expected %d", h.Phentsize, want)
	}
	b, err := im.read(h.Phoff, uint64(h.Phnum)*uint64(want), maxTable)
	if err != nil {
		return err
	}
	im.segs = make([]elf.ProgHeader, h.Phnum)
	for i := range im.segs {
		im.segs[i] = im.segment(b[i*want:])
	}
	return nil
}

func (im *image) segment(b []byte) elf.ProgHeader {
	le := binary.LittleEndian
	if im.class == elf.ELFCLASS32 {
		u := func(i int) uint64 { return uint64(le.Uint32(b[i*4:])) }
		return elf.ProgHeader{Type: elf.ProgType(u(0)), Off: u(1), Vaddr: u(2), Paddr: u(3), Filesz: u(4), Memsz: u(5),
			Flags: elf.ProgFlag(u(6)), Align: u(7)}
	}
	u := func(i int) uint64 { return le.Uint64(b[i*8:]) }
	return elf.ProgHeader{Type: elf.ProgType(le.Uint32(b)), Flags: elf.ProgFlag(le.Uint32(b[4:])), Off: u(1), Vaddr: u(2),
		Paddr: u(3), Filesz: u(4), Memsz: u(5), Align: u(6)}
}

func (im *image) readSections(h elf.Header64) error {
	want := uint64(64)
	if im.class == elf.ELFCLASS32 {
		want = 40
	}
	if h.Shoff == 0 {
		return nil
	}
	if uint64(h.Shentsize) != want {
		return fmt.Errorf("entry size %d, expected %d", h.Shentsize, want)
	}
	first, err := im.read(h.Shoff, want, want)
	if err != nil {
		return err
	}
	// More than 0xff00 sections: the count and the index of the names stand in section 0.
	zero, _ := im.section(first)
	count, names := uint64(h.Shnum), uint64(h.Shstrndx)
	if count == 0 {
		count = zero.FileSize
	}
	if names == uint64(elf.SHN_XINDEX) {
		names = uint64(zero.Link)
	}
	if count > maxSections {
		return fmt.Errorf("%d sections: more than the limit of %d", count, maxSections)
	}
	b, err := im.read(h.Shoff, count*want, maxTable)
	if err != nil {
		return err
	}
	return im.nameSections(b, int(count), int(want), names)
}

// nameSections decodes count section headers and looks their names up in section number names.
func (im *image) nameSections(b []byte, count, want int, names uint64) error {
	im.sections = make([]elf.SectionHeader, count)
	nameOff := make([]uint32, count)
	for i := range im.sections {
		im.sections[i], nameOff[i] = im.section(b[i*want:])
	}
	if names == 0 {
		return nil
	}
	if names >= uint64(count) {
		return fmt.Errorf("section %d of names: there are %d sections", names, count)
	}
	tab, err := im.data(&im.sections[names], 16<<20)
	if err != nil {
		return fmt.Errorf("names: %w", err)
	}
	text := string(tab)
	for i := range im.sections {
		im.sections[i].Name, _ = cstring(text, nameOff[i], 256)
	}
	return nil
}

func (im *image) section(b []byte) (s elf.SectionHeader, name uint32) {
	le := binary.LittleEndian
	u32 := func(i int) uint32 { return le.Uint32(b[i*4:]) }
	if im.class == elf.ELFCLASS32 {
		u := func(i int) uint64 { return uint64(u32(i)) }
		s = elf.SectionHeader{Type: elf.SectionType(u32(1)), Flags: elf.SectionFlag(u32(2)), Addr: u(3), Offset: u(4),
			FileSize: u(5), Link: u32(6), Info: u32(7), Addralign: u(8), Entsize: u(9)}
	} else {
		u := func(off int) uint64 { return le.Uint64(b[off:]) }
		s = elf.SectionHeader{Type: elf.SectionType(u32(1)), Flags: elf.SectionFlag(u(8)), Addr: u(16), Offset: u(24),
			FileSize: u(32), Link: u32(10), Info: u32(11), Addralign: u(48), Entsize: u(56)}
	}
	s.Size = s.FileSize
	return s, u32(0)
}

// data returns the bytes of a section as they stand in the file.
func (im *image) data(s *elf.SectionHeader, limit uint64) ([]byte, error) {
	if s.Type == elf.SHT_NOBITS {
		return nil, fmt.Errorf("section %q has no bytes in this file", s.Name)
	}
	b, err := im.read(s.Offset, s.FileSize, limit)
	if err != nil {
		return nil, fmt.Errorf("section %q: %w", s.Name, err)
	}
	return b, nil
}

// byName returns the section of that name that has bytes in the file, or nil.
func (im *image) byName(name string) *elf.SectionHeader {
	for i := range im.sections {
		if s := &im.sections[i]; s.Name == name && s.Type != elf.SHT_NOBITS {
			return s
		}
	}
	return nil
}

// linked returns the section that s names in sh_link, as one string.
func (im *image) linked(s *elf.SectionHeader) (string, error) {
	if s.Link == 0 || uint64(s.Link) >= uint64(len(im.sections)) {
		return "", fmt.Errorf("section %q: no string table %d", s.Name, s.Link)
	}
	b, err := im.data(&im.sections[s.Link], maxTable)
	return string(b), err
}

// buildID returns the descriptor of the GNU build id note, nil if there is none. Sections come first: in a separate
// debug file the program headers still describe the file it was taken from.
func (im *image) buildID() []byte {
	for i := range im.sections {
		s := &im.sections[i]
		if s.Type != elf.SHT_NOTE {
			continue
		}
		if b, err := im.data(s, maxSmall); err == nil {
			if id := findBuildID(b); id != nil {
				return id
			}
		}
	}
	for _, p := range im.segs {
		if p.Type != elf.PT_NOTE {
			continue
		}
		if b, err := im.read(p.Off, p.Filesz, maxSmall); err == nil {
			if id := findBuildID(b); id != nil {
				return id
			}
		}
	}
	return nil
}

// findBuildID walks notes (elf(5), "Notes (Nhdr)") and returns the descriptor of NT_GNU_BUILD_ID (3) of owner GNU.
func findBuildID(b []byte) []byte {
	const buildIDType, maxID = 3, 64
	for len(b) >= 12 {
		le := binary.LittleEndian
		nameLen, descLen, typ := uint64(le.Uint32(b)), uint64(le.Uint32(b[4:])), le.Uint32(b[8:])
		b = b[12:]
		descAt := (nameLen + 3) &^ 3
		end := descAt + descLen
		if end > uint64(len(b)) {
			return nil
		}
		if typ == buildIDType && nameLen == 4 && string(b[:4]) == "GNU\x00" && descLen > 0 && descLen <= maxID {
			return bytes.Clone(b[descAt:end])
		}
		b = b[min((end+3)&^3, uint64(len(b))):]
	}
	return nil
}

// cstring returns the NUL-terminated string at off in tab, and whether there is one of at most limit bytes.
func cstring(tab string, off uint32, limit int) (string, bool) {
	if uint64(off) >= uint64(len(tab)) {
		return "", false
	}
	s := tab[off:]
	s = s[:min(len(s), limit+1)]
	if i := strings.IndexByte(s, 0); i >= 0 {
		return s[:i], true
	}
	return "", false
}
