package symbol

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"xw/pkg/wire"
)

func TestReadPerfMap(t *testing.T) {
	p := readPerfMap(strings.NewReader(`1000 100 first
0x2000 0x10 LazyCompile:~set /app/hot code.js:3:14
1080 40 inside
1000 20 replaced
garbage
3000 zz bad size
4000 0 empty
ffffffffffffffff 10 wraps
5000 10 ` + "\x1b[31mred" + `
6000 10
7000 10 last`))
	for addr, want := range map[uint64]string{
		0x0fff: "", 0x1000: "replaced", 0x101f: "replaced", 0x1020: "first", 0x1080: "inside", 0x10c0: "first", 0x1100: "",
		0x200f: "LazyCompile:~set /app/hot code.js:3:14", 0x3000: "", 0x4000: "", 0x5000: "", 0x6000: "", 0x700f: "last",
	} {
		if e, ok := p.find(addr); e.name != want || ok != (want != "") {
			t.Errorf("%#x: got %q, %v; expected %q", addr, e.name, ok, want)
		}
	}
}

func TestPerfMapBelowSymFS(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "tmp"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "tmp"), "perf-3.map", "10000 100 hot\n")
	for nsPID, want := range map[uint64]string{3: "hot", 4: ""} {
		r := NewResolver(Options{Session: &wire.Session{Target: wire.Target{PID: 7, NSID: nsPID}}, SymFS: dir, Proc: t.TempDir()})
		r.AddMap(&wire.Mmap{PID: 7, Start: 0x10000, Len: 0x1000, Path: "//anon", Prot: protExec})
		got := r.Resolve(7, 0x10010, 5)
		if got.Func != want || got.JIT != (want != "") || got.Module != "[anon]" || want != "" && got.Offset != 0x10 {
			t.Errorf("pid %d in its namespace: got %+v", nsPID, got)
		}
	}
}
