package symbol

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const cProgram = `
#include <stdio.h>
#include <unistd.h>
extern char **environ;
static int hidden = 3;
int counter = 1;
long long table[64];
const int fixed = 7;
__thread int per_thread = 2;
static int own(void) { return 11; }
static void *pick(void) { return own; }
int chosen(void) __attribute__((ifunc("pick")));
static int __attribute__((noinline)) bump(int by) { static int calls; return hidden += by + calls++; }
int main(void) { printf("%d %p\n", bump(counter) + chosen(), (void *)environ); return per_thread + (int)table[1] + fixed; }
`

// one returns the only symbol of that name.
func one(t *testing.T, f *File, name string) Sym {
	t.Helper()
	found, err := f.Lookup(name)
	if err != nil {
		t.Fatalf("look up %q: %v", name, err)
	}
	if len(found) != 1 {
		t.Fatalf("look up %q: %d symbols, expected 1: %+v", name, len(found), found)
	}
	return found[0]
}

func TestLookupC(t *testing.T) {
	for _, flags := range [][]string{{"-pie"}, {"-no-pie"}, {"-static"}, {"-static-pie"}, {"-m32"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			if flags[0] == "-m32" {
				if _, err := os.Stat("/usr/include/gnu/stubs-32.h"); err != nil {
					t.Skip("needs a 32-bit libc")
				}
			}
			path := compile(t, "p.c", cProgram, "cc", append([]string{"-O1"}, flags...)...)
			f, truth := open(t, path), nm(t, path)
			for name, want := range map[string]Sym{
				"hidden":     {Size: 4, Type: Object, Binding: Local, Writable: true},
				"counter":    {Size: 4, Type: Object, Binding: Global, Writable: true},
				"table":      {Size: 512, Type: Object, Binding: Global, Writable: true},
				"fixed":      {Size: 4, Type: Object, Binding: Global},
				"per_thread": {Size: 4, Type: TLS, Binding: Global},
				"chosen":     {Type: IFunc, Binding: Global},
				"main":       {Type: Func, Binding: Global},
			} {
				got := one(t, f, name)
				if got.Addr != truth[name] || got.Type != want.Type || got.Binding != want.Binding ||
					got.Writable != want.Writable || want.Size != 0 && got.Size != want.Size {
					t.Errorf("%s: got %+v, expected %+v at %#x", name, got, want, truth[name])
				}
			}
			if found, err := f.Lookup("nothing_like_it"); len(found) != 0 || err != nil {
				t.Errorf("an unknown name: %v, %v", found, err)
			}
		})
	}
}

func TestDataSymbols(t *testing.T) {
	f := open(t, compile(t, "p.c", cProgram, "cc", "-pie", "-O1"))
	syms, err := f.DataSymbols()
	if err != nil {
		t.Fatal(err)
	}
	has := func(name string) bool {
		return slices.ContainsFunc(syms, func(s Sym) bool { return s.Name == name })
	}
	for _, name := range []string{"hidden", "counter", "table"} {
		if !has(name) {
			t.Errorf("%s is missing", name)
		}
	}
	for _, name := range []string{"fixed", "per_thread", "main", "_end", "__bss_start", "_DYNAMIC", "chosen"} {
		if has(name) {
			t.Errorf("%s is no writable data", name)
		}
	}
	if !slices.IsSortedFunc(syms, func(a, b Sym) int { return int(int64(a.Addr - b.Addr)) }) {
		t.Error("not sorted by address")
	}
}

func TestCopyRelocations(t *testing.T) {
	path := compile(t, "p.c", cProgram, "cc", "-no-pie", "-fno-pie", "-O1")
	syms, err := open(t, path).CopyRelocations()
	if err != nil {
		t.Fatal(err)
	}
	want := nm(t, path, "-D")["environ@GLIBC_2.2.5"]
	if want == 0 || !slices.ContainsFunc(syms, func(s Sym) bool { return s.Name == "environ" && s.Addr == want && s.Size == 8 }) {
		t.Errorf("environ at %#x is missing: %+v", want, syms)
	}
	one(t, open(t, path), "environ")
}

const cxxProgram = `
#include <string>
namespace ns { int counter = 1; struct Box { static long total; void set(int); int get() const; }; long Box::total; }
namespace { int secret = 2; }
template <class T> struct Of { static T value; };
template <class T> T Of<T>::value;
template <class T> __attribute__((noinline)) T twice(T x) { return x + x; }
void ns::Box::set(int v) { static int calls; total = v + calls++ + secret; }
int ns::Box::get() const { return total; }
std::string label() { static std::string kept = "x"; return kept; }
int main() { ns::Box b; b.set(ns::counter); Of<int>::value = twice(3); return b.get() + Of<int>::value + label().size(); }
`

func TestLookupCxx(t *testing.T) {
	path := compile(t, "p.cc", cxxProgram, "g++", "-O0")
	f, truth := open(t, path), nm(t, path)
	for name, mangled := range map[string]string{
		"ns::counter":                      "_ZN2ns7counterE",
		"_ZN2ns7counterE":                  "_ZN2ns7counterE",
		"ns::Box::total":                   "_ZN2ns3Box5totalE",
		"(anonymous namespace)::secret":    "_ZN12_GLOBAL__N_16secretE",
		"Of<int>::value":                   "_ZN2OfIiE5valueE",
		"ns::Box::set(int)::calls":         "_ZZN2ns3Box3setEiE5calls",
		"ns::Box::set":                     "_ZN2ns3Box3setEi",
		"ns::Box::set(int)":                "_ZN2ns3Box3setEi",
		"ns::Box::get":                     "_ZNK2ns3Box3getEv",
		"ns::Box::get() const":             "_ZNK2ns3Box3getEv",
		"int twice<int>(int)":              "_Z5twiceIiET_S0_",
		"twice<int>(int)":                  "_Z5twiceIiET_S0_",
		"twice<int>":                       "_Z5twiceIiET_S0_",
		"label":                            "_Z5labelB5cxx11v",
		"label[abi:cxx11]()":               "_Z5labelB5cxx11v",
		"guard variable for label()::kept": "_ZGVZ5labelB5cxx11vE4kept",
	} {
		if name == "guard variable for label()::kept" {
			name = Demangle(mangled)
		}
		got, err := f.Lookup(name)
		if err != nil || len(got) != 1 || got[0].Addr != truth[mangled] || got[0].Name != mangled {
			t.Errorf("%q: got %+v, %v; expected %s at %#x", name, got, err, mangled, truth[mangled])
		}
	}
}

const rustProgram = `
pub mod inner {
    pub static mut COUNTER: u64 = 7;
    pub struct T;
    impl T { #[inline(never)] pub fn bump(&self) { unsafe { COUNTER += 1; } } }
}
static mut PLAIN: u32 = 3;
fn main() {
    for _ in 0..3 { inner::T.bump(); unsafe { PLAIN += 1; } }
    println!("{}", unsafe { *(&raw const inner::COUNTER) + *(&raw const PLAIN) as u64 });
}
`

func TestLookupRust(t *testing.T) {
	path := compile(t, "p.rs", rustProgram, "rustc", "-g", "-C", "symbol-mangling-version=v0")
	f, truth := open(t, path), nm(t, path)
	for name, tail := range map[string]string{"p::inner::COUNTER": "5inner7COUNTER", "p::PLAIN": "5PLAIN", "<p::inner::T>::bump": "T4bump"} {
		got := one(t, f, name)
		if !strings.HasSuffix(got.Name, tail) || got.Addr != truth[got.Name] {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

func TestRustHashes(t *testing.T) {
	for _, c := range []struct {
		mangled, name string
		same          bool
	}{
		{"_ZN1m5inner7COUNTER17h0123456789abcdefE", "m::inner::COUNTER", true},
		{"_ZN1m5inner7COUNTER17h0123456789abcdefE", "m::inner::COUNTER::h0123456789abcdef", true},
		{"_ZN1m5inner7COUNTER17h0123456789abcdefE", "m::inner::COUNTER::h0123456789abcdee", false},
		// The example of RFC 2603: crate mycrate with disambiguator 1 and the same name with a hash.
		{"_RNvC6_123foo3bar", "123foo::bar", true},
		{"_RNvCs_7mycrate3foo", "mycrate::foo", true},
		{"_RNvCs_7mycrate3foo", "mycrate[1]::foo", true},
		{"_RNvCs0_7mycrate3foo", "mycrate[2]::foo", true},
		{"_RNvCs0_7mycrate3foo", "mycrate[3]::foo", false},
		{"_RNvCsa_7mycrate3foo", "mycrate[c]::foo", true},
		{"_RNvCs10_7mycrate3foo", "mycrate[40]::foo", true},
	} {
		if got := demanglesTo(c.mangled, c.name); got != c.same {
			t.Errorf("%s is %s: %v, expected %v", c.mangled, c.name, got, c.same)
		}
	}
}

const goProgram = `package main

import "fmt"

type T struct{ n int }

//go:noinline
func (t *T) bump() { t.n += counter; counter++ }

var counter = 1
var shared [4]uint64

func main() {
	t := &T{}
	t.bump()
	shared[1]++
	fmt.Println(t.n, counter, shared)
}
`

func TestLookupGo(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "go.mod", "module prog\n")
	write(t, dir, "main.go", goProgram)
	run(t, dir, "go", "build", "-o", "prog", ".")
	path := filepath.Join(dir, "prog")
	f, truth := open(t, path), nm(t, path)
	for name, typ := range map[string]Type{"main.counter": Object, "main.shared": Object, "main.(*T).bump": Func} {
		if got := one(t, f, name); got.Addr != truth[name] || got.Type != typ {
			t.Errorf("%s: got %+v, expected %#x", name, got, truth[name])
		}
	}
}

func TestLookupVersions(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "l.c", `
int new_one = 2, old_one = 1, single = 3;
__asm__(".symver old_one, level@V1"); __asm__(".symver new_one, level@@V2"); __asm__(".symver single, lone@V1");
`)
	write(t, dir, "l.map", "V1 { global: level; lone; local: *; };\nV2 { global: level; } V1;\n")
	run(t, dir, "cc", "-shared", "-fPIC", "-Wl,--version-script=l.map", "-o", "lib.so", "l.c")
	for _, strip := range []bool{false, true} {
		if strip {
			run(t, dir, "strip", "lib.so")
		}
		path := filepath.Join(dir, "lib.so")
		truth := nm(t, path, "-D")
		for name, versioned := range map[string]string{"level": "level@@V2", "lone": "lone@V1"} {
			if got := one(t, open(t, path), name); got.Addr != truth[versioned] || got.Name != name {
				t.Errorf("stripped %v: %s: got %+v, expected %#x", strip, name, got, truth[versioned])
			}
		}
		if strip {
			continue
		}
		for _, name := range []string{"level@V1", "level@@V2"} {
			if got := one(t, open(t, path), name); got.Addr != truth[name] {
				t.Errorf("%s: got %+v, expected %#x", name, got, truth[name])
			}
		}
	}
}

func TestLastIdentifier(t *testing.T) {
	for name, want := range map[string]string{
		"counter": "counter", "ns::counter": "counter", "ns::Box::get() const": "get", "f(int (*)(int))::x": "x",
		"Of<std::pair<int, int> >::value": "value", "twice<int>(int)": "twice", "bar[abi:cxx11]": "bar", "a::é": "",
		"": "", "()": "", "Foo::~Foo()": "Foo", "<p::T as p::Q>::go": "go", "f(": "",
	} {
		if got := lastIdentifier(name); got != want {
			t.Errorf("%q: got %q, expected %q", name, got, want)
		}
	}
}

func TestSplitVersion(t *testing.T) {
	for name, want := range map[string][3]string{
		"foo": {"foo", "", ""}, "foo@@V": {"foo", "V", ""}, "foo@V": {"foo", "V", "old"}, "@x": {"@x", "", ""},
		"go.dep/v@1/f": {"go.dep/v@1/f", "", ""},
	} {
		base, version, old := splitVersion(name)
		if base != want[0] || version != want[1] || old != (want[2] != "") {
			t.Errorf("%q: got %q %q %v", name, base, version, old)
		}
	}
}

func TestBuildIDNote(t *testing.T) {
	note := func(owner string, typ uint32, desc string) []byte {
		b := binary.LittleEndian.AppendUint32(nil, uint32(len(owner)))
		b = binary.LittleEndian.AppendUint32(b, uint32(len(desc)))
		b = binary.LittleEndian.AppendUint32(b, typ)
		for _, s := range []string{owner, desc} {
			b = append(b, s...)
			for len(b)%4 != 0 {
				b = append(b, 0)
			}
		}
		return b
	}
	id := strings.Repeat("i", 20)
	for name, c := range map[string]struct {
		notes []byte
		want  string
	}{
		"alone":       {note("GNU\x00", 3, id), id},
		"second":      {append(note("GNU\x00", 1, "abi"), note("GNU\x00", 3, id)...), id},
		"other owner": {note("Go\x00\x00", 3, id), ""},
		"cut":         {note("GNU\x00", 3, id)[:30], ""},
		"huge":        {[]byte("\x04\x00\x00\x00\xff\xff\xff\xff\x03\x00\x00\x00GNU\x00"), ""},
		"empty":       {nil, ""},
	} {
		if got := string(findBuildID(c.notes)); got != c.want {
			t.Errorf("%s: got %q, expected %q", name, got, c.want)
		}
	}
}
