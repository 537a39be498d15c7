// Package symbol turns names into addresses and addresses into code places: ELF symbol tables, DWARF line tables and
// inlined calls, Go's own tables, JIT maps and kernel symbols. It only reads files, trusts none of them, and leaves
// empty what it does not know.
package symbol

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"xw/pkg/symbol/internal/debuginfo"
)

// pageSize is the smallest unit of a mapping on x86-64.
const pageSize = 4096

// File is one ELF file, with its separate debug file if LoadDebug found one. Tables are read when first asked for.
// A File is not safe for concurrent use.
type File struct {
	image     *image
	debug     *image // separate debug file, nil if there is none
	root      string // how the file's mount namespace is reached
	path      string // of the file, in that namespace; "" if not told
	debugPath string // of the separate debug file, likewise
	closers   []io.Closer
	dwarf     *debuginfo.Data
	goLines   *goTable // of a Go program, nil for others
	goRead    bool
	syms      []rawSym // all tables together, without duplicates
	symsErr   error
	symsRead  bool
	funcs     []rawSym // code symbols by address
	sizedEnd  []uint64 // sizedEnd[i]: highest end of a symbol with a size among funcs[:i+1]
}

// Open reads the headers of the ELF file in r, which holds size bytes and must stay open while the File is in use.
// The error matches ErrNotELF when r is something else. Nothing in the file is trusted: what points outside of it is
// an error, and no table is read beyond fixed limits.
func Open(r io.ReaderAt, size int64) (*File, error) {
	im, err := readImage(r, size)
	if err != nil {
		return nil, fmt.Errorf("read ELF file: %w", err)
	}
	return &File{image: im}, nil
}

// Close closes the files that f opened: debug files. The reader given to Open stays with the caller.
func (f *File) Close() error {
	if f.dwarf != nil {
		f.dwarf.Close()
	}
	var err error
	for _, c := range f.closers {
		err = errors.Join(err, c.Close())
	}
	f.closers = nil
	return err
}

// BuildID returns the GNU build id, nil if the file has none.
func (f *File) BuildID() []byte { return f.image.buildID() }

// Class returns 64 or 32.
func (f *File) Class() int {
	if f.image.class == elf.ELFCLASS32 {
		return 32
	}
	return 64
}

// Machine returns e_machine.
func (f *File) Machine() elf.Machine { return f.image.machine }

// Type returns e_type: ET_EXEC for a program at fixed addresses, ET_DYN for PIE and shared libraries.
func (f *File) Type() elf.Type { return f.image.typ }

// Entry returns the ELF virtual address where the program starts, 0 if it has none.
func (f *File) Entry() uint64 { return f.image.entry }

// Interp returns the path of the dynamic loader (PT_INTERP), "" if the file names none.
func (f *File) Interp() string {
	for _, p := range f.image.segs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		if b, err := f.image.read(p.Off, p.Filesz, pageSize); err == nil {
			s, _, _ := strings.Cut(string(b), "\x00")
			return s
		}
	}
	return ""
}

// Soname returns DT_SONAME, "" if there is none.
func (f *File) Soname() string {
	for _, s := range f.dynStrings(elf.DT_SONAME) {
		return s
	}
	return ""
}

// Needed returns the DT_NEEDED library names in file order.
func (f *File) Needed() []string { return f.dynStrings(elf.DT_NEEDED) }

func (f *File) dynStrings(tag elf.DynTag) []string {
	const limit = 4096 // entries
	var out []string
	for i := range f.image.sections {
		s := &f.image.sections[i]
		if s.Type != elf.SHT_DYNAMIC {
			continue
		}
		b, err := f.image.data(s, maxSmall)
		if err != nil {
			return nil
		}
		names, err := f.image.linked(s)
		if err != nil {
			return nil
		}
		for t, v := range f.image.pairs(b) {
			if elf.DynTag(t) == tag && len(out) < limit && v <= maxTable {
				if name, ok := cstring(names, uint32(v), pageSize); ok {
					out = append(out, name)
				}
			}
		}
	}
	return out
}

// pairs yields the (tag, value) entries of a dynamic section.
func (im *image) pairs(b []byte) func(yield func(uint64, uint64) bool) {
	le := binary.LittleEndian
	return func(yield func(uint64, uint64) bool) {
		for {
			var t, v uint64
			switch {
			case im.class == elf.ELFCLASS32 && len(b) >= 8:
				t, v, b = uint64(le.Uint32(b)), uint64(le.Uint32(b[4:])), b[8:]
			case im.class == elf.ELFCLASS64 && len(b) >= 16:
				t, v, b = le.Uint64(b), le.Uint64(b[8:]), b[16:]
			default:
				return
			}
			if t == uint64(elf.DT_NULL) || !yield(t, v) {
				return
			}
		}
	}
}

// Protection bits of a mapping, as in mmap(2).
const (
	protWrite = 2
	protExec  = 4
)

// LoadBias returns the address of ELF address 0 in a process that has mapped the file's bytes from mapOffset at
// mapStart. Two segments can share a page of the file; then the mapping alone does not say which of them it is: of a
// fixed-address program the bias is 0, of others the first segment is taken, which is right for a module's lowest
// mapping. LoadBiasProt decides better.
func (f *File) LoadBias(mapStart, mapOffset uint64) (uint64, error) {
	return f.bias(mapStart, mapOffset, func(elf.ProgFlag) bool { return true })
}

// LoadBiasProt is LoadBias of a mapping whose protection (PROT_WRITE 2, PROT_EXEC 4) is known: it must suit the
// segment's flags, where a writable segment may have been made read-only after relocation.
func (f *File) LoadBiasProt(mapStart, mapOffset uint64, prot uint32) (uint64, error) {
	bias, err := f.bias(mapStart, mapOffset, func(flags elf.ProgFlag) bool {
		return (flags&elf.PF_X != 0) == (prot&protExec != 0) && (prot&protWrite == 0 || flags&elf.PF_W != 0)
	})
	if err != nil { // mprotect may have changed the protection since the program was loaded
		return f.LoadBias(mapStart, mapOffset)
	}
	return bias, nil
}

func (f *File) bias(start, offset uint64, suits func(elf.ProgFlag) bool) (uint64, error) {
	var found []uint64
	for _, p := range f.image.segs {
		if p.Type != elf.PT_LOAD || p.Filesz == 0 || !suits(p.Flags) {
			continue
		}
		if first := p.Off &^ (pageSize - 1); offset >= first && offset-first < p.Filesz+(p.Off-first) {
			found = append(found, start-offset-(p.Vaddr-p.Off))
		}
	}
	if len(found) == 0 {
		return 0, fmt.Errorf("load bias: file offset %#x: in no loadable segment", offset)
	}
	if f.image.typ == elf.ET_EXEC && slices.Contains(found, 0) {
		return 0, nil
	}
	return found[0], nil
}

func isText(p *elf.ProgHeader) bool { return p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 }

// Segment returns the protection bits of the loadable segment that holds an ELF address, ok false if none does.
func (f *File) Segment(addr uint64) (prot uint32, ok bool) {
	for _, p := range f.image.segs {
		if p.Type == elf.PT_LOAD && addr >= p.Vaddr && addr-p.Vaddr < p.Memsz {
			for _, b := range []struct {
				flag elf.ProgFlag
				prot uint32
			}{{elf.PF_R, 1}, {elf.PF_W, protWrite}, {elf.PF_X, protExec}} {
				if p.Flags&b.flag != 0 {
					prot |= b.prot
				}
			}
			return prot, true
		}
	}
	return 0, false
}

// writable reports whether addr stays writable after relocation: in a writable segment and outside of PT_GNU_RELRO.
func (f *File) writable(addr uint64) bool {
	for _, p := range f.image.segs {
		if p.Type == elf.PT_GNU_RELRO && addr >= p.Vaddr && addr-p.Vaddr < p.Memsz {
			return false
		}
	}
	prot, ok := f.Segment(addr)
	return ok && prot&protWrite != 0
}

// symbols returns the symbols of .symtab and .dynsym, and of the debug file's .symtab, each once, in no order that
// means anything. The error says why a table could not be read; the others are returned all the same.
func (f *File) symbols() ([]rawSym, error) {
	if f.symsRead {
		return f.syms, f.symsErr
	}
	f.symsRead = true
	for _, t := range []struct {
		im  *image
		typ elf.SectionType
	}{{f.image, elf.SHT_SYMTAB}, {f.debug, elf.SHT_SYMTAB}, {f.image, elf.SHT_DYNSYM}} {
		if t.im == nil {
			continue
		}
		syms, err := t.im.symbols(t.typ)
		f.symsErr = errors.Join(f.symsErr, err)
		f.syms = append(f.syms, syms...)
	}
	slices.SortStableFunc(f.syms, func(a, b rawSym) int {
		return cmp.Or(cmp.Compare(a.addr, b.addr), strings.Compare(a.name, b.name), cmp.Compare(a.typ, b.typ))
	})
	f.syms = slices.CompactFunc(f.syms, func(a, b rawSym) bool {
		return a.addr == b.addr && a.name == b.name && a.typ == b.typ
	})
	return f.syms, f.symsErr
}
