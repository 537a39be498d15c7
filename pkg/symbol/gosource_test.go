package symbol

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const goInlineProgram = `package main

import "fmt"

var counter int

func set(n int) { counter = n }

//go:noinline
func tick(n int) {
	set(n * 3)
	set(n + counter)
}

func main() {
	for i := range 5 {
		tick(i)
	}
	fmt.Println(counter)
}
`

func buildGo(t *testing.T, flags ...string) string {
	t.Helper()
	needELF(t)
	dir := t.TempDir()
	write(t, dir, "go.mod", "module prog\n\ngo 1.22\n")
	write(t, dir, "main.go", goInlineProgram)
	cmd := exec.Command("go", append(append([]string{"build", "-o", "prog"}, flags...), ".")...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return filepath.Join(dir, "prog")
}

// goAddr2line returns what "go tool addr2line" says, as "function file:line".
func goAddr2line(t *testing.T, path string, addrs []uint64) []string {
	t.Helper()
	var in strings.Builder
	for _, a := range addrs {
		fmt.Fprintf(&in, "%#x\n", a)
	}
	cmd := exec.Command("go", "tool", "addr2line", path)
	cmd.Stdin = strings.NewReader(in.String())
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != 2*len(addrs) {
		t.Fatalf("%d lines for %d addresses", len(lines), len(addrs))
	}
	var places []string
	for pair := range slices.Chunk(lines, 2) {
		places = append(places, pair[0]+" "+filepath.Base(pair[1]))
	}
	return places
}

func TestGoSource(t *testing.T) {
	for name, flagText := range map[string]string{
		"plain":          "",
		"pie":            "-buildmode=pie",
		"no compression": "-ldflags=-compressdwarf=false",
		"no DWARF":       "-ldflags=-w",
		"stripped":       "-ldflags=-s",
		"stripped pie":   "-buildmode=pie -ldflags=-s",
	} {
		t.Run(name, func(t *testing.T) {
			flags := strings.Fields(flagText)
			truth := buildGo(t, slices.DeleteFunc(slices.Clone(flags), func(f string) bool { return strings.HasPrefix(f, "-ldflags") })...)
			path := buildGo(t, flags...)
			addrs := functionAddrs(t, truth, "main.tick", "main.main", "fmt.Println", "runtime.mallocgc")
			want := goAddr2line(t, truth, addrs)
			f := open(t, path)
			got := make([]string, len(addrs))
			inlined := map[string]bool{}
			for i, a := range addrs {
				fr := Frame{Line: -1}
				f.resolve(&fr, a)
				got[i] = fmt.Sprintf("%s %s:%d", fr.Func, filepath.Base(fr.File), fr.Line)
				if len(fr.Inlined) > 0 && fr.Func == "main.tick" {
					c := fr.Inlined[len(fr.Inlined)-1]
					inlined[fmt.Sprintf("%s called at %d", c.Func, c.CallLine)] = true
				}
			}
			compare(t, addrs, got, want)
			hasDWARF := !strings.Contains(flagText, "-ldflags=-s") && !strings.Contains(flagText, "-ldflags=-w")
			if hasDWARF != inlined["main.set called at 12"] {
				t.Errorf("inlined calls in main.tick: %v, expected some: %v", inlined, hasDWARF)
			}
		})
	}
}

func TestRustSource(t *testing.T) {
	for _, flags := range []string{"-g -O", "-g", "-g -O -C split-debuginfo=packed"} {
		t.Run(flags, func(t *testing.T) {
			path := compile(t, "p.rs", rustProgram, "rustc", append(strings.Fields(flags), "-C", "symbol-mangling-version=v0")...)
			addrs := functionAddrs(t, path, "p::main", "<p::inner::T>::bump")
			if strings.Contains(flags, "packed") {
				f := open(t, path)
				f.LoadDebug("", path)
				fr := Frame{}
				f.resolve(&fr, addrs[0])
				if fr.Note != "" || fr.Line < 1 || filepath.Base(fr.File) != "p.rs" {
					t.Errorf("got %+v", fr)
				}
				return
			}
			compare(t, addrs, places(chains(open(t, path), addrs)), places(addr2line(t, path, addrs)))
		})
	}
}

// LLVM writes indexed addresses, strings and range lists in version 5, gcc does not outside of split objects.
func TestRustVersion5(t *testing.T) {
	build := func(version string) string {
		return compile(t, "p.rs", rustProgram, "rustc", "-g", "-O", "-C", "symbol-mangling-version=v0", "-C", "dwarf-version="+version)
	}
	four, five := build("4"), build("5")
	addrs := functionAddrs(t, four, "p::main", "<p::inner::T>::bump")
	compare(t, addrs, chains(open(t, five), addrs), chains(open(t, four), addrs))
}
