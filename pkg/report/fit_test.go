package report

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"
	"unicode/utf8"

	"xw/pkg/golden"
)

const cppString = "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >"

func TestShortName(t *testing.T) {
	for _, test := range []struct {
		name string
		room int
		want string
	}{
		{"take_order+0x1c", 15, "take_order+0x1c"},
		{"take_order_of_customer+0x1c", 15, "take…tomer+0x1c"},
		{"ns::f(" + cppString + " const&)+0x2", 30, "ns::f(std::string const&)+0x2"},
		{"ns::f(" + cppString + " const&)+0x2", 20, "ns::f+0x2"},
		{"std::vector<int, std::allocator<int> >::push_back(int&&)", 32, "std::vector<int>::push_back"},
		{"std::map<int, std::vector<int, std::allocator<int> >, std::less<int>, " +
			"std::allocator<std::pair<int const, std::vector<int, std::allocator<int> > > > >::at", 36, "std::map<int, std::vector<int>>::at"},
		{"std::map<int, std::vector<int, std::allocator<int> > >::at", 20, "std::map<…>::at"},
		{"(anonymous namespace)::f(int)", 6, "f(int)"},
		{"operator<<(std::ostream&, T const&)", 20, "operator<<"},
		{"ns::less<int>::operator()(int, int) const", 25, "ns::less<int>::operator()"},
		{"ns::list<int>::operator->() const+0x4", 30, "ns::list<int>::operator->+0x4"},
		{"ns::operator<< <char>(std::ostream&, int)", 21, "ns::operator<< <char>"},
		{"main::{lambda(int)#1}::operator()(int) const", 40, "main::{lambda(int)#1}::operator()"},
		{"void f<int>(int) [clone .part.0]+0x9", 16, "void f<int>+0x9"},
		{"main.(*Store).Put.func1+0x1c", 28, "main.(*Store).Put.func1+0x1c"},
		{"example.com/store.(*Store[go.shape.int]).Put", 36, "example.com/store.(*Store[…]).Put"},
		{"<alloc::vec::Vec<Type> as core::ops::Drop>::drop", 46, "<alloc::vec::Vec<…> as core::ops::Drop>::drop"},
		{"f(int", 3, "…nt"},
		{"abc", 1, "…"},
		{"abc", 0, ""},
	} {
		got := shortName(test.name, test.room)
		if n := utf8.RuneCountInString(got); n > test.room {
			t.Errorf("%q in %d columns: %q has %d", test.name, test.room, got, n)
		}
		if utf8.RuneCountInString(test.want) <= test.room && got != test.want {
			t.Errorf("%q in %d columns: %q, want %q", test.name, test.room, got, test.want)
		}
	}
}

func TestShortPath(t *testing.T) {
	for _, test := range []struct {
		path string
		room int
		want string
	}{
		{"/src/a/b.c:7", 12, "/src/a/b.c:7"},
		{"/src/a/b.c:7", 11, "…/a/b.c:7"},
		{"/src/a/b.c:7", 8, "…/b.c:7"},
		{"/src/a/b.c:7", 0, "…/b.c:7"},
		{"b.c:7", 2, "b.c:7"},
		{"", 2, ""},
	} {
		if got := shortPath(test.path, test.room); got != test.want {
			t.Errorf("%q in %d columns: %q, want %q", test.path, test.room, got, test.want)
		}
	}
}

// FuzzShortName: whatever a name is, it gets the room that there is and no more.
func FuzzShortName(f *testing.F) {
	f.Add("ns::f<"+cppString+">(int) const+0x4", 20)
	f.Add("operator<<>)(->", 3)
	f.Fuzz(func(t *testing.T, name string, room int) {
		room = min(max(room, 0), 200)
		if got := shortName(name, room); utf8.RuneCountInString(got) > room {
			t.Errorf("%q in %d columns: %q", name, room, got)
		}
	})
}

// longNames places everything in functions with long names.
type longNames struct{ fakeSymbols }

func (l *longNames) Place(addr, time uint64) Place {
	p := l.fakeSymbols.Place(addr, time)
	if p.File != "" {
		p.File = "/home/someone/projects/trading/src/engine/" + Text(filepath.Base(string(p.File)))
	}
	switch p.Func {
	case "work":
		p.Func = "trading::orderbook::PriceLevelIndexedContainer<" + cppString + ", std::pair<long, " + cppString + " > >::insert(" +
			cppString + " const&, std::pair<long, " + cppString + " > const&)"
	case "tick":
		p.Func = "std::_Function_handler<void (int), main::{lambda(int)#3}>::_M_invoke(std::_Any_data const&, int&&)"
		p.Inlined = []Inlined{{Func: "main::{lambda(int)#3}::operator()(int) const"}, {Func: "std::__invoke_impl<void, main()::<lambda(int)>&, int>"}}
	}
	return p
}

// TestTextWidths lays one report out for terminals of several widths.
func TestTextWidths(t *testing.T) {
	m, err := read(t, open(t, "testdata/widths/stream.txt"), Options{Symbols: &longNames{}})
	if err != nil {
		t.Fatal(err)
	}
	r := m.Report()
	for _, width := range []int{80, 100, 160} {
		var b bytes.Buffer
		if err := TextReport(&b, r, TextOptions{Width: width, Top: 20, Callchain: true}); err != nil {
			t.Fatal(err)
		}
		golden.Check(t, b.Bytes(), fmt.Sprintf("testdata/widths/%d.text", width))
	}
}
