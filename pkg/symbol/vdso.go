package symbol

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// vdso returns the library that the kernel maps into every process, if the resolver's own has the recorded build id;
// there is no file of it.
func (r *Resolver) vdso(m *mapping) *module {
	key := moduleKey{path: m.path, id: string(m.id)}
	mod := r.modules[key]
	if mod == nil {
		mod = &module{note: "no build id of the vdso was recorded"}
		if m.id != nil {
			mod = r.ownVDSO(m.id)
		}
		r.modules[key] = mod
	}
	return mod
}

func (r *Resolver) ownVDSO(id []byte) *module {
	const other = "the vdso is another than that of this machine's kernel"
	image, ok := r.readVDSO()
	if !ok {
		return &module{note: other}
	}
	f, err := Open(bytes.NewReader(image), int64(len(image)))
	if err != nil || !bytes.Equal(f.BuildID(), id) {
		return &module{note: other}
	}
	return &module{file: f}
}

// readVDSO returns the bytes of the resolver's own vdso.
func (r *Resolver) readVDSO() ([]byte, bool) {
	maps, err := r.readProc("self", "maps")
	if err != nil {
		return nil, false
	}
	for line := range strings.Lines(maps) {
		if !strings.HasSuffix(strings.TrimSpace(line), "[vdso]") {
			continue
		}
		text, _, _ := strings.Cut(line, " ")
		from, to, _ := strings.Cut(text, "-")
		start, err1 := strconv.ParseUint(from, 16, 64)
		end, err2 := strconv.ParseUint(to, 16, 64)
		if err1 != nil || err2 != nil || end <= start || end-start > maxSmall {
			return nil, false
		}
		return r.readSelf(start, end-start)
	}
	return nil, false
}

func (r *Resolver) readSelf(start, n uint64) ([]byte, bool) {
	mem, err := os.Open(filepath.Join(r.proc, "self", "mem"))
	if err != nil {
		return nil, false
	}
	defer mem.Close()
	b := make([]byte, n)
	got, _ := mem.ReadAt(b, int64(start))
	return b, got == len(b)
}
