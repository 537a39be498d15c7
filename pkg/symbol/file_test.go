package symbol

import (
	"bytes"
	"debug/elf"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// elfSample returns the bytes of a small program, for damaging.
func elfSample(t testing.TB) []byte {
	t.Helper()
	b, err := os.ReadFile(compile(t, "p.c", cProgram, "cc", "-g", "-O1"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// exercise calls everything that reads f.
func exercise(f *File) {
	f.BuildID()
	f.Interp()
	f.Soname()
	f.Needed()
	f.Lookup("counter")
	f.Lookup("ns::counter(int)")
	f.DataSymbols()
	f.CopyRelocations()
	f.FuncAt(f.Entry())
	f.LoadBias(0x1000, 0)
	f.LoadBiasProt(0x1000, 0x1000, protExec)
	f.LoadDebug("", "/nowhere/prog")
}

func TestFileHeader(t *testing.T) {
	path := compile(t, "p.c", cProgram, "cc", "-pie", "-Wl,--build-id=0x0123456789abcdef")
	f := open(t, path)
	if got := hex.EncodeToString(f.BuildID()); got != "0123456789abcdef" {
		t.Errorf("build id: got %s", got)
	}
	if f.Class() != 64 || f.Type() != elf.ET_DYN || f.Machine() != elf.EM_X86_64 {
		t.Errorf("got class %d, type %v, machine %v", f.Class(), f.Type(), f.Machine())
	}
	if got, want := f.Entry(), nm(t, path)["_start"]; got != want {
		t.Errorf("entry: got %#x, expected %#x", got, want)
	}
	if got := f.Interp(); !strings.Contains(got, "ld-linux") {
		t.Errorf("interpreter: got %q", got)
	}
	if got := strings.Join(f.Needed(), " "); got != "libc.so.6" {
		t.Errorf("needed: got %q", got)
	}
}

func TestNotELF(t *testing.T) {
	for _, text := range []string{"", "#!/bin/sh\n", "\x7fEL", strings.Repeat("x", 100)} {
		if _, err := Open(strings.NewReader(text), int64(len(text))); !errors.Is(err, ErrNotELF) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A damaged file may give an error or nonsense, never a panic, nor more memory than the file is worth.
func TestDamagedELF(t *testing.T) {
	good := elfSample(t)
	random := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		b := bytes.Clone(good)
		for range 1 + random.IntN(8) {
			at := random.IntN(len(b))
			if random.IntN(2) == 0 { // headers decide most
				at = random.IntN(1024)
			}
			b[at] = byte(random.Uint32())
		}
		if random.IntN(4) == 0 {
			b = b[:random.IntN(len(b))]
		}
		if f, err := Open(bytes.NewReader(b), int64(len(b))); err == nil {
			exercise(f)
		}
	}
}

func FuzzOpen(f *testing.F) {
	f.Add([]byte("\x7fELF"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if file, err := Open(bytes.NewReader(b), int64(len(b))); err == nil {
			exercise(file)
		}
	})
}

// Segment layouts as linkers make them; prot 1 is r--, 3 rw-, 5 r-x.
func TestLoadBias(t *testing.T) {
	load := func(flags elf.ProgFlag, off, vaddr, size uint64) elf.ProgHeader {
		return elf.ProgHeader{Type: elf.PT_LOAD, Flags: flags, Off: off, Vaddr: vaddr, Filesz: size, Memsz: size + 0x100}
	}
	modern := []elf.ProgHeader{load(elf.PF_R, 0, 0, 0x628), load(elf.PF_R|elf.PF_X, 0x1000, 0x1000, 0x1a5),
		load(elf.PF_R, 0x2000, 0x2000, 0x10c), load(elf.PF_R|elf.PF_W, 0x2df0, 0x3df0, 0x240)}
	shared := []elf.ProgHeader{load(elf.PF_R|elf.PF_X, 0, 0, 0x7a4), load(elf.PF_R|elf.PF_W, 0xe10, 0x200e10, 0x230)}
	fixed := []elf.ProgHeader{load(elf.PF_R|elf.PF_X, 0, 0x400000, 0x7a4), load(elf.PF_R|elf.PF_W, 0xe10, 0x600e10, 0x230)}
	for name, c := range map[string]struct {
		typ        elf.Type
		segs       []elf.ProgHeader
		start, off uint64
		prot       uint32
		want       uint64
		fails      bool
	}{
		"first":                 {elf.ET_DYN, modern, 0x555500000000, 0, 1, 0x555500000000, false},
		"text":                  {elf.ET_DYN, modern, 0x555500001000, 0x1000, 5, 0x555500000000, false},
		"rodata, relro or data": {elf.ET_DYN, modern, 0x555500003000, 0x2000, 3, 0x555500000000, false},
		"middle of text":        {elf.ET_DYN, []elf.ProgHeader{load(5, 0x1000, 0x1000, 0x9000)}, 0x7f0000004000, 0x4000, 5, 0x7f0000000000, false},
		"shared page, text":     {elf.ET_DYN, shared, 0x555500000000, 0, 5, 0x555500000000, false},
		"shared page, data":     {elf.ET_DYN, shared, 0x555500200000, 0, 3, 0x555500000000, false},
		"shared page, relro":    {elf.ET_DYN, shared, 0x555500200000, 0, 1, 0x555500000000, false},
		"fixed, text":           {elf.ET_EXEC, fixed, 0x400000, 0, 5, 0, false},
		"fixed, data":           {elf.ET_EXEC, fixed, 0x600000, 0, 3, 0, false},
		"prot changed":          {elf.ET_DYN, shared[:1], 0x555500000000, 0, 7, 0x555500000000, false},
		"outside":               {elf.ET_DYN, modern, 0x555500009000, 0x9000, 5, 0, true},
	} {
		f := &File{image: &image{typ: c.typ, segs: c.segs}}
		got, err := f.LoadBiasProt(c.start, c.off, c.prot)
		if got != c.want || (err != nil) != c.fails {
			t.Errorf("%s: got %#x, %v; expected %#x", name, got, err, c.want)
		}
	}
}

func TestLoadDebug(t *testing.T) {
	const id = "-Wl,--build-id=0xabcdef0123456789"
	for name, c := range map[string]struct {
		flag  string
		where string // of the debug file, below the root; the program is /opt/prog
		spoil func(t *testing.T, path string)
		found bool
	}{
		"by build id":          {id, "usr/lib/debug/.build-id/ab/cdef0123456789.debug", nil, true},
		"beside":               {id, "opt/prog.debug", nil, true},
		"in .debug":            {"-Wl,--build-id=none", "opt/.debug/prog.debug", nil, true},
		"in the global tree":   {"-Wl,--build-id=none", "usr/lib/debug/opt/prog.debug", nil, true},
		"wrong checksum":       {"-Wl,--build-id=none", "opt/prog.debug", appendByte, false},
		"another build id":     {id, "opt/prog.debug", otherBuild, false},
		"a directory":          {id, "opt/prog.debug", makeDir, false},
		"somewhere else again": {id, "srv/prog.debug", nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			prog := compile(t, "p.c", cProgram, "cc", "-g", "-O1", c.flag)
			truth := nm(t, prog)
			run(t, filepath.Dir(prog), "objcopy", "--only-keep-debug", "prog", "prog.debug")
			run(t, filepath.Dir(prog), "strip", "prog")
			run(t, filepath.Dir(prog), "objcopy", "--add-gnu-debuglink=prog.debug", "prog")
			debug := filepath.Join(root, c.where)
			if err := os.MkdirAll(filepath.Dir(debug), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(filepath.Join(filepath.Dir(prog), "prog.debug"), debug); err != nil {
				t.Fatal(err)
			}
			if c.spoil != nil {
				c.spoil(t, debug)
			}
			f := open(t, prog)
			if found, _ := f.Lookup("hidden"); len(found) != 0 {
				t.Fatal("a stripped program still has its symbols")
			}
			if got := f.LoadDebug(root, "/opt/prog"); (got != "") != c.found {
				t.Fatalf("debug file: got %q, expected one: %v", got, c.found)
			}
			if c.found {
				if got := one(t, f, "hidden"); got.Addr != truth["hidden"] || !got.Writable {
					t.Errorf("got %+v, expected %#x", got, truth["hidden"])
				}
			}
		})
	}
}

func appendByte(t *testing.T, path string) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write([]byte{0}); err != nil {
		t.Fatal(err)
	}
}

func otherBuild(t *testing.T, path string) {
	other := compile(t, "p.c", cProgram, "cc", "-g", "-O1", "-Wl,--build-id=0x99")
	b, err := os.ReadFile(other)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

func makeDir(t *testing.T, path string) {
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
}
