package symbol

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

const (
	bigUnits     = 320
	bigFunctions = 250 // in each unit
	bigSites     = 1000
)

// buildBig makes a program with some 50 MB of DWARF in bigUnits units: one unit compiled, and copied with its symbols
// renamed.
func buildBig(t testing.TB, flags ...string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds a large program")
	}
	needELF(t)
	dir := t.TempDir()
	var source strings.Builder
	for k := range bigFunctions {
		fmt.Fprintf(&source, `struct node%[1]d { int a; long b[%[1]d + 1]; double value%[1]d; struct node%[1]d *next; union { int i; char text%[1]d[8]; } u; };
volatile int counter%[1]d;
static inline __attribute__((always_inline)) int add%[1]d(struct node%[1]d *p, int v) {
	counter%[1]d += v;
	return p->a + v;
}
int f%[1]d(struct node%[1]d *p, int v) {
	if (v > 3)
		return add%[1]d(p, v * 2);
	int r = add%[1]d(p, v);
	return r + add%[1]d(p, r);
}
`, k)
	}
	write(t, dir, "unit.c", source.String())
	run(t, dir, "cc", append([]string{"-c", "-O1", "-g"}, append(flags, "unit.c")...)...)
	for i := range bigUnits {
		run(t, dir, "objcopy", fmt.Sprintf("--prefix-symbols=u%d_", i), "unit.o", fmt.Sprintf("u%d.o", i))
	}
	write(t, dir, "main.c", "int main(void) { return 0; }\n")
	run(t, dir, "sh", "-c", "cc "+strings.Join(flags, " ")+" -o prog main.c u*.o")
	return filepath.Join(dir, "prog")
}

// bigAddrs returns sites in functions of all units, the same place of a function in each.
func bigAddrs(truth map[string]uint64) (addrs []uint64, names []string, of []int) {
	for i := range bigSites {
		unit, k := i%bigUnits, i/bigUnits*7
		name := fmt.Sprintf("u%d_f%d", unit, k)
		addrs, names, of = append(addrs, truth[name]+14), append(names, name), append(of, k)
	}
	return addrs, names, of
}

func resolveBig(path string, addrs []uint64) ([]Frame, error) {
	file, size, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	f, err := Open(file, size)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	frames := make([]Frame, len(addrs))
	for i, a := range addrs {
		f.resolve(&frames[i], a)
	}
	return frames, nil
}

// A thousand sites in all units of a large program: each right, and in little memory.
func TestBigProgram(t *testing.T) {
	path := buildBig(t)
	var debug uint64
	for _, s := range open(t, path).image.sections {
		if strings.HasPrefix(s.Name, ".debug_") {
			debug += s.Size
		}
	}
	if debug < 50<<20 {
		t.Fatalf("only %d MB of DWARF", debug>>20)
	}
	addrs, names, of := bigAddrs(nm(t, path))
	want := addr2line(t, path, addrs)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	frames, err := resolveBig(path, addrs)
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	inlined := 0
	for i, fr := range frames {
		if fr.Func != names[i] || fr.Offset != 14 {
			t.Errorf("%#x: got %s+%d, expected %s", addrs[i], fr.Func, fr.Offset, names[i])
		}
		if len(fr.Inlined) > 0 {
			inlined++
			if want := fmt.Sprintf("add%d", of[i]); fr.Inlined[0].Func != want {
				t.Errorf("%#x: got %+v, expected a call of %s", addrs[i], fr.Inlined, want)
			}
		}
		if got := places([]string{chain(fr)})[0]; got != places(want[i : i+1])[0] {
			t.Errorf("%#x: got %s, addr2line %s", addrs[i], got, want[i])
		}
	}
	if inlined < bigSites/2 {
		t.Errorf("only %d sites are in inlined calls", inlined)
	}
	const limit = 200 << 20
	if grown := after.Sys - before.Sys; grown > limit {
		t.Errorf("memory grew by %d MB, expected at most %d MB", grown>>20, limit>>20)
	}
	t.Logf("%d sites: memory from the system grew by %d MB, %d MB were allocated altogether", len(addrs), (after.Sys-before.Sys)>>20,
		(after.TotalAlloc-before.TotalAlloc)>>20)
}

func BenchmarkBigProgram(b *testing.B) {
	for name, flags := range map[string][]string{"plain": nil, "zlib": {"-gz=zlib"}} {
		b.Run(name, func(b *testing.B) {
			path := buildBig(b, flags...)
			addrs, _, _ := bigAddrs(nm(b, path))
			for b.Loop() {
				if _, err := resolveBig(path, addrs); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
