package symbol

import (
	"cmp"
	"math"
	"path"
	"strings"

	"xw/pkg/symbol/internal/debuginfo"
	"xw/pkg/wire"
)

// Options say what a Resolver may look at.
type Options struct {
	// Session is the stream's header. Its boot id decides whether this is the machine of the capture, and so whether
	// the target may still be alive here and the kernel's symbols fit.
	Session *wire.Session
	// SymFS is a directory that holds the files of the machine of the capture under their own paths. If it is set no
	// other files are used.
	SymFS string
	// Proc is where proc(5) is mounted; "" is /proc.
	Proc string
}

// Resolver turns addresses of recorded processes into places in their code. It opens files when an address needs them
// and uses one only if it is the one that was mapped, by its build id or for another reason that leaves no doubt.
// It is not safe for concurrent use.
type Resolver struct {
	session  wire.Session
	symfs    string
	proc     string
	local    bool // this is the machine of the capture, and it has not been rebooted since
	tables   map[uint32]*mapTable
	mapped   int    // mappings that were added
	unmapped uint64 // time from which mappings were left out
	parents  map[uint32]uint32
	births   map[uint32]uint64 // ns of CLOCK_MONOTONIC
	strings  map[string]string
	modules  map[moduleKey]*module
	alive    map[uint32]bool
	jits     map[uint32]*perfMap
	kernel   *kernelSymbols
}

// Frame is what is known about an address. Empty strings, absent numbers and a Line of -1 are what is not known.
type Frame struct {
	Func   string // function whose code this is after inlining, demangled
	Offset uint64 // bytes from its start; only with Func
	// Module is the mapped file's base name, "[vdso]", "[heap]" and so on as in /proc/PID/maps, "[anon]" for memory
	// without a name, "[kernel]" or a kernel module's "[name]".
	Module string
	// Path is the mapped file's path as the process has it; only for files.
	Path         string
	ModuleOffset wire.Opt // ELF virtual address
	FileOffset   wire.Opt // bytes into the file
	File         string   // source of the instruction itself: of the innermost inlined call, if there is one
	Line         int
	// Inlined are the inlined calls around the instruction, innermost first: Inlined[0].Func is the function that File
	// and Line are in, called from Inlined[0].CallFile in Inlined[1].Func, and the last one was called in Func.
	Inlined []Inlined
	Kernel  bool   // an address of the kernel
	JIT     bool   // Func comes from a JIT's perf map: it was there at some time, perhaps not at that of the hit
	Note    string // why less is known than could be
}

// Inlined is a call that the compiler expanded in place.
type Inlined struct {
	Func     string // the function called, demangled
	CallFile string // where the call stands
	CallLine int    // -1 if unknown
}

// NewResolver returns a resolver without mappings.
func NewResolver(opts Options) *Resolver {
	r := &Resolver{symfs: opts.SymFS, proc: cmp.Or(opts.Proc, "/proc"), tables: map[uint32]*mapTable{},
		parents: map[uint32]uint32{}, births: map[uint32]uint64{}, strings: map[string]string{},
		unmapped: math.MaxUint64, modules: map[moduleKey]*module{}, alive: map[uint32]bool{}, jits: map[uint32]*perfMap{}}
	if opts.Session != nil {
		r.session = *opts.Session
	}
	r.local = r.session.BootID != "" && r.session.BootID == r.bootID()
	return r
}

// Close closes the files that were opened.
func (r *Resolver) Close() {
	for _, m := range r.modules {
		m.close()
	}
	r.modules = map[moduleKey]*module{}
}

// kernelStart is the lowest address of the upper half of the x86-64 address space.
const kernelStart = 1 << 63

// Resolve names an address of a process at a time (ns of CLOCK_MONOTONIC).
func (r *Resolver) Resolve(pid uint32, addr, time uint64) Frame {
	f := Frame{Line: -1}
	if addr >= kernelStart {
		r.resolveKernel(&f, addr)
		return f
	}
	m := r.mapping(pid, addr, time)
	switch {
	case m == nil:
		if !r.resolveJIT(&f, pid, addr) {
			f.Note = "no mapping known at this address"
		}
	case m.fileBacked():
		r.resolveFile(&f, r.module(m), m, addr)
	case m.path == "[vdso]":
		f.Module = m.path
		r.resolveFile(&f, r.vdso(m), m, addr)
	default:
		f.Module = anonymousName(m.path)
		r.resolveJIT(&f, pid, addr)
	}
	return f
}

// anonymousName is what a mapping without a file is called.
func anonymousName(path string) string {
	if path == "" || strings.HasPrefix(path, "//anon") {
		return "[anon]"
	}
	return path
}

// resolveFile fills f in from the file that is mapped.
func (r *Resolver) resolveFile(f *Frame, mod *module, m *mapping, addr uint64) {
	if m.fileBacked() {
		f.Module, f.Path = path.Base(m.path), m.path
		f.FileOffset = wire.Some(addr - m.start + m.offset)
	}
	f.Note = mod.note
	if mod.file == nil {
		return
	}
	bias, err := mod.file.LoadBiasProt(m.start, m.offset, m.prot)
	if err != nil {
		f.Note = "not a loaded part of the file"
		return
	}
	f.ModuleOffset = wire.Some(addr - bias)
	mod.file.resolve(f, addr-bias)
}

// resolve fills in function and source of an ELF address.
func (f *File) resolve(fr *Frame, addr uint64) {
	place, ok := f.source(addr)
	if !ok {
		place, _ = f.goSource(addr)
	}
	if s := f.funcAt(addr, place.Func); s != nil {
		fr.Func, fr.Offset = Demangle(s.name), addr-s.addr
	} else if place.Func != "" {
		fr.Func, fr.Offset = Demangle(place.Func), addr-place.Start
	}
	fr.File, fr.Line = place.File, lineNumber(place.Line)
	for _, c := range place.Calls {
		fr.Inlined = append(fr.Inlined, Inlined{Func: Demangle(c.Func), CallFile: c.File, CallLine: lineNumber(c.Line)})
	}
	if place.MissingSplit != "" && fr.Note == "" {
		fr.Note = "inlined calls unknown: split debug file " + place.MissingSplit + " not found"
	}
}

func lineNumber(line int) int {
	if line <= 0 {
		return -1
	}
	return line
}

// Code returns up to n bytes of code from an address on, out of the file that was mapped there, as it stands in the
// file; ok is false when there is no file that is known to be the right one.
func (r *Resolver) Code(pid uint32, addr, time uint64, n int) (code []byte, ok bool) {
	m := r.mapping(pid, addr, time)
	if addr >= kernelStart || m == nil || !m.fileBacked() {
		return nil, false
	}
	mod := r.module(m)
	if mod.file == nil {
		return nil, false
	}
	bias, err := mod.file.LoadBiasProt(m.start, m.offset, m.prot)
	if err != nil {
		return nil, false
	}
	return mod.file.bytesAt(addr-bias, n)
}

// bytesAt reads what the file loads at an ELF address, up to the end of the segment.
func (f *File) bytesAt(addr uint64, n int) ([]byte, bool) {
	for _, p := range f.image.segs {
		if isText(&p) && addr >= p.Vaddr && addr-p.Vaddr < p.Filesz {
			size := min(uint64(max(n, 0)), p.Filesz-(addr-p.Vaddr))
			b, err := f.image.read(p.Off+(addr-p.Vaddr), size, maxSmall)
			return b, err == nil
		}
	}
	return nil, false
}

// goSource is where an ELF address is in the source of a Go program without DWARF, from its own line table.
func (f *File) goSource(addr uint64) (debuginfo.Place, bool) {
	if !f.goRead {
		f.goRead = true
		f.goLines = f.image.goTable()
	}
	if f.goLines == nil {
		return debuginfo.Place{}, false
	}
	return f.goLines.find(addr)
}
