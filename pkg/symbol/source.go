package symbol

import (
	"bytes"
	"path/filepath"
	"strings"

	"xw/pkg/symbol/internal/debuginfo"
)

// source returns what the DWARF of f, or of its separate debug file, says about an ELF address.
func (f *File) source(addr uint64) (debuginfo.Place, bool) {
	if f.dwarf == nil {
		im := f.image
		if f.debug != nil && f.debug.hasDebugInfo() {
			im = f.debug
		}
		f.dwarf = debuginfo.New(debuginfo.Config{Sections: debugSections(im), Text: f.text(), Split: f.openSplit,
			Package: f.openPackage, Supplement: func() debuginfo.Sections { return f.openSupplement(im) }})
	}
	return f.dwarf.Find(addr)
}

func (im *image) hasDebugInfo() bool {
	return im.byName(".debug_info") != nil || im.byName(".zdebug_info") != nil
}

// text returns the executable address ranges.
func (f *File) text() [][2]uint64 {
	var out [][2]uint64
	for _, p := range f.image.segs {
		if isText(&p) && p.Vaddr+p.Memsz > p.Vaddr {
			out = append(out, [2]uint64{p.Vaddr, p.Vaddr + p.Memsz})
		}
	}
	return out
}

// openSplit opens the split object that the compiler wrote as name in its directory dir: there, or beside the program.
// Its id is checked by the caller.
func (f *File) openSplit(dir, name string) (debuginfo.Sections, func()) {
	built := name
	if !filepath.IsAbs(name) {
		built = filepath.Join(dir, name)
	}
	beside := filepath.Dir(f.path)
	for _, path := range []string{filepath.Join(f.root, built), built, filepath.Join(f.root, beside, name),
		filepath.Join(f.root, beside, filepath.Base(name))} {
		file, size, err := openRegular(path)
		if err != nil {
			continue
		}
		if im, err := readImage(file, size); err == nil {
			return debugSections(im), func() { file.Close() }
		}
		file.Close()
	}
	return nil, nil
}

// openPackage opens the .dwp file beside the program or its debug file.
func (f *File) openPackage() debuginfo.Sections {
	for _, path := range []string{f.path + ".dwp", strings.TrimSuffix(f.debugPath, ".debug") + ".dwp", f.debugPath + ".dwp"} {
		if path == ".dwp" {
			continue
		}
		if im := f.keepOpen(filepath.Join(f.root, path)); im != nil {
			return debugSections(im)
		}
	}
	return nil
}

// openSupplement opens the file that dwz moved common debug data to, named in .gnu_debugaltlink by path and build id.
func (f *File) openSupplement(im *image) debuginfo.Sections {
	s := im.byName(".gnu_debugaltlink")
	if s == nil {
		return nil
	}
	b, err := im.data(s, maxSmall)
	if err != nil {
		return nil
	}
	name, id, ok := bytes.Cut(b, []byte{0})
	if !ok || len(name) == 0 {
		return nil
	}
	path := string(name)
	for _, c := range append([]string{f.beside(path)}, debugCandidates("", id, "")...) {
		if alt := f.keepOpen(filepath.Join(f.root, c)); alt != nil && bytes.Equal(alt.buildID(), id) {
			return debugSections(alt)
		}
	}
	return nil
}

// beside returns a path that is relative to the directory of the debug file, or of the program if there is none.
func (f *File) beside(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	if f.debugPath != "" {
		return filepath.Join(filepath.Dir(f.debugPath), path)
	}
	return filepath.Join(filepath.Dir(f.path), path)
}

// keepOpen opens an ELF file until f is closed, nil if it cannot.
func (f *File) keepOpen(path string) *image {
	file, size, err := openRegular(path)
	if err != nil {
		return nil
	}
	im, err := readImage(file, size)
	if err != nil {
		file.Close()
		return nil
	}
	f.closers = append(f.closers, file)
	return im
}
