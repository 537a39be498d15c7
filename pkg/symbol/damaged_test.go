package symbol

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Damaged debug data gives unknown or wrong places, never a panic nor a search without end.
func TestDamagedDWARF(t *testing.T) {
	for _, flags := range []string{"-gdwarf-5", "-gdwarf-4", "-gdwarf-5 -gz=zlib", "-gdwarf-2"} {
		t.Run(flags, func(t *testing.T) {
			path := buildInline(t, "gcc", append(strings.Fields(flags), "-O2")...)
			damage(t, path, functionAddrs(t, path, inlineFuncs...), func(name string) bool { return strings.HasPrefix(name, ".debug_") })
		})
	}
	for _, flags := range []string{"-gdwarf-5 -gsplit-dwarf", "-gdwarf-4 -gsplit-dwarf"} {
		t.Run(flags, func(t *testing.T) {
			path := buildInline(t, "gcc", append(strings.Fields(flags), "-O2")...)
			addrs := functionAddrs(t, path, inlineFuncs...)
			object := filepath.Join(filepath.Dir(path), "main.c.dwo")
			good, err := os.ReadFile(object)
			if err != nil {
				t.Fatal(err)
			}
			random := rand.New(rand.NewPCG(3, 4))
			for range 200 {
				b := bytes.Clone(good)
				b[64+random.IntN(len(b)-64)] = byte(random.Uint32())
				if err := os.WriteFile(object, b, 0o644); err != nil {
					t.Fatal(err)
				}
				chains(open(t, path), addrs)
			}
		})
	}
}

func TestDamagedGoTable(t *testing.T) {
	path := buildGo(t, "-ldflags=-s")
	addrs := []uint64{0x401000, 0x440000, 0x480000, 0x490000}
	damage(t, path, addrs, func(name string) bool { return name == ".gopclntab" })
}

// damage changes bytes of the sections chosen and resolves addresses.
func damage(t *testing.T, path string, addrs []uint64, chosen func(name string) bool) {
	t.Helper()
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	im := open(t, path).image
	for i := range im.sections {
		s := &im.sections[i]
		if !chosen(s.Name) {
			continue
		}
		rounds := 100
		for range rounds {
			b := bytes.Clone(good)
			for range 1 + random.IntN(4) {
				at := s.Offset + random.Uint64N(s.FileSize)
				if random.IntN(3) == 0 { // headers decide most
					at = s.Offset + random.Uint64N(min(64, s.FileSize))
				}
				b[at] = byte(random.Uint32()) | byte(random.IntN(2)*0xff)
			}
			f, err := Open(bytes.NewReader(b), int64(len(b)))
			if err != nil {
				t.Fatal(err)
			}
			chains(f, addrs)
		}
	}
}
