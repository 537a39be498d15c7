package symbol

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
)

// A program with calls inlined over several levels, from a header, with parts that are split off.
const (
	inlineHeader = `
static inline int __attribute__((always_inline)) leaf(volatile int *p, int v) {
	*p += v;
	return *p * 3;
}
static inline int __attribute__((always_inline)) middle(volatile int *p, int n) {
	int sum = 0;
	for (int i = 0; i < n; i++)
		sum += leaf(p, i) ^ leaf(p, sum);
	return sum;
}
`
	inlineProgram = `
#include <stdlib.h>
#include "inline.h"
volatile int counter;
int other(int);
static int __attribute__((noinline)) tick(int n) {
	if (n > 1000)
		abort();
	return middle(&counter, n) + leaf(&counter, n);
}
int __attribute__((noinline, cold)) rare(int n) { return middle(&counter, n); }
static int dropped(int n) { return leaf(&counter, n); }
int unused(int n) { return dropped(n) + middle(&counter, n); }
int main(int argc, char **argv) {
	int sum = tick(argc) + other(argc);
	if (argc > 5)
		sum += rare(argc);
	return sum + leaf(&counter, 2);
}
`
	otherProgram = `
#include "inline.h"
extern volatile int counter;
int other(int n) {
	return n ? middle(&counter, n)
	         : leaf(&counter, 7);
}
`
)

// buildInline builds the program with the given flags in a directory of its own.
func buildInline(t testing.TB, compiler string, flags ...string) string {
	t.Helper()
	needELF(t)
	dir := t.TempDir()
	write(t, dir, "inline.h", inlineHeader)
	ext := "c"
	if compiler == "g++" {
		ext = "cc"
	}
	a := write(t, dir, "main."+ext, inlineProgram)
	b := write(t, dir, "other."+ext, otherProgram)
	for _, source := range []string{a, b} {
		run(t, dir, compiler, append(append([]string{"-c"}, flags...), source, "-o", source+".o")...)
	}
	run(t, dir, compiler, append(append([]string{"-o", "prog"}, flags...), a+".o", b+".o")...)
	return filepath.Join(dir, "prog")
}

// chain is a place as addr2line -i prints it: function and file:line, innermost first.
func chain(f Frame) string {
	var parts []string
	file, line := f.File, f.Line
	add := func(name string) {
		parts = append(parts, fmt.Sprintf("%s %s:%d", strings.TrimSuffix(name, ".cold"), filepath.Base(file), line))
	}
	for _, c := range f.Inlined {
		add(c.Func)
		file, line = c.CallFile, c.CallLine
	}
	add(f.Func)
	return strings.Join(parts, ", ")
}

// addr2line asks binutils for the same.
func addr2line(t *testing.T, path string, addrs []uint64) []string {
	t.Helper()
	var list strings.Builder
	for _, a := range addrs {
		fmt.Fprintf(&list, "%#x\n", a)
	}
	args := write(t, t.TempDir(), "addrs", list.String())
	sc := bufio.NewScanner(strings.NewReader(run(t, filepath.Dir(path), "addr2line", "-C", "-a", "-i", "-f", "-e", path, "@"+args)))
	var out []string
	for sc.Scan() {
		name := sc.Text()
		if strings.HasPrefix(name, "0x") {
			out = append(out, "")
			continue
		}
		sc.Scan()
		place, _, _ := strings.Cut(sc.Text(), " (disc")
		i := strings.LastIndexByte(place, ':')
		line := strings.Replace(place[i+1:], "?", "-1", 1)
		if n := len(out) - 1; out[n] != "" {
			out[n] += ", "
		}
		out[len(out)-1] += fmt.Sprintf("%s %s:%s", strings.TrimSuffix(name, ".cold"), filepath.Base(place[:i]), line)
	}
	if len(out) != len(addrs) {
		t.Fatalf("addr2line: %d answers for %d addresses", len(out), len(addrs))
	}
	return out
}

// functionAddrs returns all addresses of the program's own functions.
func functionAddrs(t *testing.T, path string, names ...string) []uint64 {
	t.Helper()
	own := map[string]bool{}
	for _, n := range names {
		own[n] = true
	}
	var out []uint64
	for line := range strings.Lines(run(t, "", "nm", "-S", "-C", path)) {
		fields := strings.Fields(line)
		if len(fields) < 4 {
			continue
		}
		name, _, _ := strings.Cut(fields[3], "(")
		if !own[name] {
			continue
		}
		addr, _ := strconv.ParseUint(fields[0], 16, 64)
		size, _ := strconv.ParseUint(fields[1], 16, 64)
		for i := range size {
			out = append(out, addr+i)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i] < out[j] })
	return out
}

func chains(f *File, addrs []uint64) []string {
	out := make([]string, len(addrs))
	for i, a := range addrs {
		fr := Frame{Line: -1}
		f.resolve(&fr, a)
		out[i] = chain(fr)
	}
	return out
}

// places leaves the names out.
func places(chains []string) []string {
	out := make([]string, len(chains))
	for i, c := range chains {
		for part := range strings.SplitSeq(c, ", ") {
			out[i] += part[strings.LastIndexByte(part, ' '):]
		}
	}
	return out
}

func compare(t *testing.T, addrs []uint64, got, want []string) {
	t.Helper()
	if len(addrs) < 100 {
		t.Fatalf("only %d addresses", len(addrs))
	}
	bad := 0
	for i := range addrs {
		if got[i] != want[i] {
			if bad++; bad <= 5 {
				t.Errorf("%#x:\n got %s\nwant %s", addrs[i], got[i], want[i])
			}
		}
	}
	if bad > 5 {
		t.Errorf("%d of %d addresses differ", bad, len(addrs))
	}
}

var inlineFuncs = []string{"main", "tick", "rare", "other", "tick.cold", "middle", "leaf", "unused"}

func TestSourceAgainstAddr2line(t *testing.T) {
	for _, flags := range []string{
		"-gdwarf-5 -O2", "-gdwarf-4 -O2", "-gdwarf-3 -O2", "-gdwarf-2 -O2", "-gdwarf-5 -O0", "-gdwarf-5 -O3 -no-pie",
		"-gdwarf-5 -O2 -m32", "-gdwarf-5 -O2 -static",
		"-gdwarf-5 -O2 -ffunction-sections -Wl,--gc-sections", "-gdwarf-4 -O2 -ffunction-sections -Wl,--gc-sections",
	} {
		for _, compiler := range []string{"gcc", "g++"} {
			t.Run(compiler+" "+flags, func(t *testing.T) {
				if strings.Contains(flags, "-m32") && !has32Bit(compiler) {
					t.Skip("needs a 32-bit libc")
				}
				path := buildInline(t, compiler, strings.Fields(flags)...)
				addrs := functionAddrs(t, path, inlineFuncs...)
				got, want := chains(open(t, path), addrs), addr2line(t, path, addrs)
				if compiler == "g++" { // for inlined static functions addr2line shows the name of the outer symbol
					got, want = places(got), places(want)
				}
				compare(t, addrs, got, want)
			})
		}
	}
}

func has32Bit(compiler string) bool {
	_, err := os.Stat("/usr/include/gnu/stubs-32.h")
	return err == nil && compiler == "gcc"
}

// However debug data is stored, it says the same about the same code. binutils does not read all of these forms.
func TestSourceForms(t *testing.T) {
	plain := buildInline(t, "gcc", "-gdwarf-5", "-O2")
	addrs := functionAddrs(t, plain, inlineFuncs...)
	want := chains(open(t, plain), addrs)
	if joined := strings.Join(want, "\n"); !strings.Contains(joined, "leaf inline.h:3, middle inline.h:9, tick main.c:9") {
		t.Fatalf("the plain form shows no inlined calls:\n%s", joined)
	}
	for name, c := range map[string]struct {
		flags string
		then  func(t *testing.T, prog string)
	}{
		"zlib":               {"-gdwarf-5 -gz=zlib", nil},
		"zlib, version 4":    {"-gdwarf-4 -gz=zlib", nil},
		"old zlib":           {"-gdwarf-4 -gz=zlib-gnu", nil},
		"zstd":               {"-gdwarf-5", objcopy("--compress-debug-sections=zstd")},
		"64-bit DWARF":       {"-gdwarf-5 -gdwarf64", nil},
		"64-bit DWARF 4":     {"-gdwarf-4 -gdwarf64", nil},
		"type units":         {"-gdwarf-5 -fdebug-types-section", nil},
		"type units, 4":      {"-gdwarf-4 -fdebug-types-section", nil},
		"split":              {"-gdwarf-5 -gsplit-dwarf", nil},
		"split, version 4":   {"-gdwarf-4 -gsplit-dwarf", nil},
		"split, zlib":        {"-gdwarf-5 -gsplit-dwarf -gz=zlib", nil},
		"split, 64-bit":      {"-gdwarf-5 -gsplit-dwarf -gdwarf64", nil},
		"package":            {"-gdwarf-5 -gsplit-dwarf", pack(packV5)},
		"package, version 4": {"-gdwarf-4 -gsplit-dwarf", pack(packV4)},
		"shared":             {"-gdwarf-5", share("-r")},
		"shared, version 4":  {"-gdwarf-4", share("-r")},
		"separate":           {"-gdwarf-5", separate},
		"separate, zstd": {"-gdwarf-5", func(t *testing.T, prog string) {
			separate(t, prog)
			objcopyFile(t, prog+".debug", "--compress-debug-sections=zstd")
		}},
		"separate split":   {"-gdwarf-5 -gsplit-dwarf", separate},
		"separate package": {"-gdwarf-4 -gsplit-dwarf", func(t *testing.T, prog string) { pack(packV4)(t, prog); separate(t, prog) }},
	} {
		t.Run(name, func(t *testing.T) {
			path := buildInline(t, "gcc", append(strings.Fields(c.flags), "-O2", "-Wl,--build-id=0x0102")...)
			if c.then != nil {
				c.then(t, path)
			}
			f := open(t, path)
			f.LoadDebug("", path)
			compare(t, addrs, chains(f, addrs), want)
		})
	}
}

func objcopy(flags ...string) func(t *testing.T, prog string) {
	return func(t *testing.T, prog string) { objcopyFile(t, prog, flags...) }
}

func objcopyFile(t *testing.T, path string, flags ...string) {
	t.Helper()
	if help := run(t, "", "objcopy", "--help"); strings.Contains(strings.Join(flags, " "), "zstd") && !strings.Contains(help, "zstd") {
		t.Skip("this objcopy knows no zstd")
	}
	run(t, "", "objcopy", append(flags, path)...)
}

// share moves what two programs have in common, here all of it, into a file of its own.
func share(flags ...string) func(t *testing.T, prog string) {
	return func(t *testing.T, prog string) {
		t.Helper()
		dir := filepath.Dir(prog)
		run(t, dir, "cp", "prog", "prog2")
		run(t, dir, "dwz", append(flags, "-m", "common", "prog", "prog2")...)
		if open(t, prog).image.byName(".gnu_debugaltlink") == nil {
			t.Fatal("nothing is shared")
		}
	}
}

// separate moves symbols and debug data into a file of their own.
func separate(t *testing.T, prog string) {
	t.Helper()
	run(t, filepath.Dir(prog), "objcopy", "--only-keep-debug", prog, prog+".debug")
	run(t, filepath.Dir(prog), "objcopy", "--strip-all", "--add-gnu-debuglink="+prog+".debug", prog)
}

// Lines are known without the split object, and the note names what is missing.
func TestMissingSplitObject(t *testing.T) {
	path := buildInline(t, "gcc", "-gdwarf-5", "-gsplit-dwarf", "-O2")
	var with, without Frame
	for _, addr := range functionAddrs(t, path, "other") { // somewhere inside of an inlined call
		if open(t, path).resolve(&with, addr); len(with.Inlined) > 0 {
			run(t, filepath.Dir(path), "sh", "-c", "rm *.dwo")
			open(t, path).resolve(&without, addr)
			break
		}
	}
	if without.Func != "other" || without.File != with.File || without.Line != with.Line || with.Line < 1 ||
		len(without.Inlined) != 0 || !strings.Contains(without.Note, "other.c.dwo") || with.Note != "" {
		t.Errorf("with the split object %+v,\nwithout %+v", with, without)
	}
}

// Inlined methods, templates, lambdas and functions without linkage keep the names that C++ has for them.
func TestInlinedCxxNames(t *testing.T) {
	path := compile(t, "c.cc", `
volatile long total;
namespace ns { struct Box {
	void set(int v) { total = v; }
	template <class T> T twice(T x) { total = x; return x * 2; }
}; }
namespace { ns::Box b; inline int help(int x) { b.set(x); return b.twice(x); } }
int __attribute__((noinline)) tick(int n) {
	auto later = [&](int k) { b.set(k); return n; };
	return help(n) + later(3);
}
int main(int argc, char **) { return tick(argc); }
`, "g++", "-g", "-O2")
	f := open(t, path)
	want := map[string]bool{
		"ns::Box::set(int) in (anonymous namespace)::help in tick(int)":            false,
		"int ns::Box::twice<int>(int) in (anonymous namespace)::help in tick(int)": false,
		"ns::Box::set(int) in (anonymous class)::operator() in tick(int)":          false,
	}
	var seen []string
	for _, a := range functionAddrs(t, path, "tick") {
		fr := Frame{}
		f.resolve(&fr, a)
		name := ""
		for _, c := range fr.Inlined {
			name += c.Func + " in "
		}
		name += fr.Func
		seen = append(seen, name)
		if _, ok := want[name]; ok {
			want[name] = true
		}
	}
	for name, found := range want {
		if !found {
			t.Errorf("no address is in %s; there are %q", name, slices.Compact(seen))
		}
	}
}
