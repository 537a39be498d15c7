package target

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"xw/pkg/proc"
	"xw/pkg/symbol"
)

// module is one file in the memory of the process: an ELF file at its load bias (one module for each time it was loaded),
// or any other mapped file.
type module struct {
	path   string
	exe    bool
	bias   uint64 // address of ELF address 0; of an ELF file only
	file   *symbol.File
	info   os.FileInfo // nil for the vdso
	maps   []proc.Mapping
	names  []string        // by which it can be called, besides its SONAME
	copied map[string]bool // symbols that a program copied from its libraries
}

// base is the module's short name.
func (m *module) base() string { return filepath.Base(m.path) }

// addr is the address of an ELF address in the process.
func (m *module) addr(s *space, elfAddr uint64) uint64 { return (m.bias + elfAddr) & s.mask }

// space is the memory of a process and the files mapped there.
type space struct {
	p       *proc.Process
	maps    []proc.Mapping
	mask    uint64 // of addresses: 32-bit ones wrap
	modules []*module
	closers []io.Closer
	failed  []error // files that could not be read
}

// openSpace reads the mappings and the headers of the files. Symbol tables are read when they are first asked for.
func openSpace(p *proc.Process) (*space, error) {
	maps, err := p.Maps()
	if err != nil {
		return nil, err
	}
	s := &space{p: p, maps: maps, mask: math.MaxUint64}
	if p.Bits() == 32 {
		s.mask = math.MaxUint32
	}
	type key struct{ dev, inode uint64 }
	var order []key
	files := map[key][]proc.Mapping{}
	for _, m := range maps {
		if m.Path == "[vdso]" {
			s.addVDSO(m)
		}
		if !m.File() {
			continue
		}
		k := key{m.Dev, m.Inode}
		if files[k] == nil {
			order = append(order, k)
		}
		files[k] = append(files[k], m)
	}
	for _, k := range order {
		if err := s.addFile(files[k]); err != nil {
			s.failed = append(s.failed, err)
		}
	}
	s.markExe()
	return s, nil
}

func (s *space) close() {
	for _, c := range s.closers {
		c.Close()
	}
}

// addVDSO reads the library that the kernel maps from the memory itself.
func (s *space) addVDSO(m proc.Mapping) {
	size := int64(m.End - m.Start)
	f, err := symbol.Open(io.NewSectionReader(s.p, int64(m.Start), size), size)
	if err == nil {
		s.modules = append(s.modules, &module{path: m.Path, names: []string{m.Path}, bias: m.Start, file: f, maps: []proc.Mapping{m}})
	}
}

// addFile adds the modules of one mapped file.
func (s *space) addFile(maps []proc.Mapping) error {
	file, err := s.p.OpenMapped(maps[0])
	if err != nil {
		return err
	}
	s.closers = append(s.closers, file)
	info, err := file.Stat()
	if err != nil {
		return err
	}
	m := module{path: maps[0].Path, info: info, maps: maps, names: []string{maps[0].Path, filepath.Base(maps[0].Path)}}
	f, err := symbol.Open(file, info.Size())
	switch {
	case errors.Is(err, symbol.ErrNotELF):
		s.modules = append(s.modules, &m)
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w", m.path, err)
	}
	s.closers = append(s.closers, f)
	f.LoadDebug(s.p.RootPath(""), m.path)
	m.file = f
	if f.Interp() != "" { // only programs copy, and those that are linked dynamically
		if m.copied, err = copied(f); err != nil {
			s.failed = append(s.failed, fmt.Errorf("%s: %w", m.path, err))
		}
	}
	for _, bias := range biases(f, maps) {
		at := m
		at.bias = bias
		s.modules = append(s.modules, &at)
	}
	return nil
}

func copied(f *symbol.File) (map[string]bool, error) {
	syms, err := f.CopyRelocations()
	names := make(map[string]bool, len(syms))
	for _, sym := range syms {
		names[sym.Name] = true
	}
	return names, err
}

// biases finds where an ELF file was loaded. A file can be mapped in other ways, too: read as data, or with some of its
// code mapped a second time (V8 does that). Where it was loaded there is its first page, and code.
func biases(f *symbol.File, maps []proc.Mapping) []uint64 {
	const first, code = 2, 1
	marks := map[uint64]int{}
	var order []uint64
	for _, m := range maps {
		bias, err := f.LoadBiasProt(m.Start, m.Offset, m.Prot)
		if err != nil {
			continue
		}
		if _, ok := marks[bias]; !ok {
			order = append(order, bias)
			marks[bias] = 0
		}
		if m.Offset == 0 {
			marks[bias] |= first
		}
		if m.Prot&proc.ProtExec != 0 {
			marks[bias] |= code
		}
	}
	best := 0
	for _, mark := range marks {
		best = max(best, mark)
	}
	return slices.DeleteFunc(order, func(bias uint64) bool { return marks[bias] < best })
}

// markExe finds the program itself: the file that the kernel took the program headers from, AT_PHDR. It can also be called
// by the name it was started by, and comes first.
func (s *space) markExe() {
	const atPhdr = 3 // linux/auxvec.h
	auxv, err := s.p.Auxv()
	isExe := func(m *module) bool {
		if err != nil {
			return m.path == s.p.Exe().Path
		}
		return slices.ContainsFunc(m.maps, func(x proc.Mapping) bool { return x.Contains(auxv[atPhdr]) })
	}
	i := slices.IndexFunc(s.modules, isExe)
	if i < 0 {
		return
	}
	m := s.modules[i]
	m.exe = true
	m.names = append(m.names, s.p.Comm())
	if argv := s.p.Argv(); len(argv) > 0 {
		m.names = append(m.names, argv[0], filepath.Base(argv[0]))
	}
	slices.SortStableFunc(s.modules, func(a, b *module) int { return cmp.Compare(btoi(b.exe), btoi(a.exe)) })
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// named lists the modules of a name: a base name or path, a SONAME if no file bears the name, or another path to the file
// in the process's view.
func (s *space) named(name string) []*module {
	tests := []func(m *module) bool{
		func(m *module) bool { return slices.Contains(m.names, name) },
		func(m *module) bool { return m.file != nil && m.file.Soname() == name },
	}
	if strings.Contains(name, "/") {
		if info, err := os.Stat(s.p.RootPath(filepath.Join("/", name))); err == nil {
			tests = append(tests, func(m *module) bool { return m.info != nil && os.SameFile(m.info, info) })
		}
	}
	for _, test := range tests {
		var found []*module
		for _, m := range s.modules {
			if test(m) {
				found = append(found, m)
			}
		}
		if len(found) > 0 {
			return found
		}
	}
	return nil
}

// found is a symbol in a module.
type found struct {
	m    *module
	sym  symbol.Sym
	addr uint64
}

// lookup finds a name in some modules. Damaged tables are remembered, and what the others hold is used.
func (s *space) lookup(modules []*module, name string) []found {
	var all []found
	for _, m := range modules {
		if m.file == nil {
			continue
		}
		syms, err := m.file.Lookup(name)
		if err != nil {
			s.failed = append(s.failed, fmt.Errorf("%s: %w", m.path, err))
		}
		for _, sym := range syms {
			all = append(all, found{m, sym, m.addr(s, sym.Addr)})
		}
	}
	return all
}

// copier returns the module that has the live copy of a symbol, if that is another one.
func (s *space) copier(f found) *module {
	if f.m.copied[f.sym.Name] {
		return nil
	}
	i := slices.IndexFunc(s.modules, func(m *module) bool { return m.copied[f.sym.Name] })
	if i < 0 {
		return nil
	}
	return s.modules[i]
}

// holder returns the module that has addr in one of its segments, and the ELF address; .bss past the end of the file has
// no mapping of the file but belongs to it all the same.
func (s *space) holder(addr uint64) (*module, uint64) {
	for _, m := range s.modules {
		if m.file == nil {
			continue
		}
		elfAddr := (addr - m.bias) & s.mask
		if _, ok := m.file.Segment(elfAddr); ok {
			return m, elfAddr
		}
	}
	return nil, 0
}

// mapping returns the mapping that holds addr.
func (s *space) mapping(addr uint64) (proc.Mapping, bool) {
	i, ok := slices.BinarySearchFunc(s.maps, addr, func(m proc.Mapping, addr uint64) int {
		switch {
		case m.End <= addr:
			return -1
		case m.Start > addr:
			return 1
		}
		return 0
	})
	if !ok {
		return proc.Mapping{}, false
	}
	return s.maps[i], true
}
