package symbol

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

// pack gathers the split objects of a program in a package and removes them.
func pack(gather func(t *testing.T, prog string, objects []string)) func(t *testing.T, prog string) {
	return func(t *testing.T, prog string) {
		t.Helper()
		objects, err := filepath.Glob(filepath.Join(filepath.Dir(prog), "*.dwo"))
		if err != nil || len(objects) != 2 {
			t.Fatalf("split objects: %q, %v", objects, err)
		}
		gather(t, prog, objects)
		for _, o := range objects {
			if err := os.Remove(o); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func packV4(t *testing.T, prog string, _ []string) {
	t.Helper()
	run(t, filepath.Dir(prog), "dwp", "-e", prog, "-o", prog+".dwp")
}

// packV5 makes a package of version 5, which the dwp of binutils 2.40 cannot: sections one behind the other, offsets of
// strings moved, and an index (DWARF 5 section 7.3.5.3).
func packV5(t *testing.T, prog string, objects []string) {
	t.Helper()
	le := binary.LittleEndian
	names := []string{".debug_info.dwo", ".debug_abbrev.dwo", ".debug_str_offsets.dwo", ".debug_rnglists.dwo"}
	columns := []uint32{1, 3, 6, 8}
	whole := map[string][]byte{}
	var ids []uint64
	var offsets, sizes []byte
	for _, path := range objects {
		im := open(t, path).image
		strings, err := im.data(im.byName(".debug_str.dwo"), maxTable)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			var b []byte
			if s := im.byName(name); s != nil {
				if b, err = im.data(s, maxTable); err != nil {
					t.Fatal(err)
				}
			}
			switch name {
			case ".debug_info.dwo":
				ids = append(ids, le.Uint64(b[12:])) // length, version, type, address size, abbreviations, id
			case ".debug_str_offsets.dwo":
				for at := 8; at < len(b); at += 4 {
					le.PutUint32(b[at:], le.Uint32(b[at:])+uint32(len(whole[".debug_str.dwo"])))
				}
			}
			offsets = le.AppendUint32(offsets, uint32(len(whole[name])))
			sizes = le.AppendUint32(sizes, uint32(len(b)))
			whole[name] = append(whole[name], b...)
		}
		whole[".debug_str.dwo"] = append(whole[".debug_str.dwo"], strings...)
	}
	whole[".debug_cu_index"] = packIndex(ids, columns, offsets, sizes)
	args := []string{"-I", "elf64-x86-64"}
	for name, b := range whole {
		args = append(args, "--add-section", name+"="+write(t, t.TempDir(), "section", string(b)))
	}
	dir := t.TempDir()
	write(t, dir, "empty.c", "")
	run(t, dir, "cc", "-c", "empty.c")
	run(t, dir, "objcopy", append(args, "empty.o", prog+".dwp")...)
}

func packIndex(ids []uint64, columns []uint32, offsets, sizes []byte) []byte {
	const slots = 4
	le := binary.LittleEndian
	var hashes [slots]uint64
	var rows [slots]uint32
	for i, id := range ids {
		at := id % slots
		for rows[at] != 0 {
			at = (at + (id>>32%slots | 1)) % slots
		}
		hashes[at], rows[at] = id, uint32(i+1)
	}
	out := le.AppendUint32(nil, 5)
	for _, n := range []int{len(columns), len(ids), slots} {
		out = le.AppendUint32(out, uint32(n))
	}
	for _, h := range hashes {
		out = le.AppendUint64(out, h)
	}
	for _, r := range append(rows[:], columns...) {
		out = le.AppendUint32(out, r)
	}
	return append(append(out, offsets...), sizes...)
}
