package target

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	symbol := func(base string, offset int64) []reading {
		return []reading{{base: base, offset: uint64(offset), symbol: true}}
	}
	// A name with one offset can also be a module, when the sign is a plus, or a symbol that ends like this.
	offset := func(base string, offset int64, text string) []reading {
		return []reading{{base: base, offset: uint64(offset), symbol: true, file: offset >= 0}, {base: text, symbol: true}}
	}
	tests := []struct {
		in   string
		want Spec
	}{
		{"counter", Spec{Name: "counter", Place: "counter", Access: "w", place: place{readings: symbol("counter", 0)}}},
		{"counter:4", Spec{Name: "counter", Place: "counter", Len: 4, Access: "w", place: place{readings: symbol("counter", 0)}}},
		{"counter:rw", Spec{Name: "counter", Place: "counter", Access: "rw", place: place{readings: symbol("counter", 0)}}},
		{"counter:010:r", Spec{Name: "counter", Place: "counter", Len: 10, Access: "r", place: place{readings: symbol("counter", 0)}}},
		{"main:x", Spec{Name: "main", Place: "main", Access: "x", place: place{readings: symbol("main", 0)}}},
		{"ns::counter:4:w", Spec{Name: "ns::counter", Place: "ns::counter", Len: 4, Access: "w", place: place{readings: symbol("ns::counter", 0)}}},
		{"ns::w", Spec{Name: "ns::w", Place: "ns::w", Access: "w", place: place{readings: symbol("ns::w", 0)}}},
		{"ns::w:w", Spec{Name: "ns::w", Place: "ns::w", Access: "w", place: place{readings: symbol("ns::w", 0)}}},
		{"w:w", Spec{Name: "w", Place: "w", Access: "w", place: place{readings: symbol("w", 0)}}},
		{"main.(*T).x", Spec{Name: "main.(*T).x", Place: "main.(*T).x", Access: "w", place: place{readings: symbol("main.(*T).x", 0)}}},
		{"main.m[go.shape.int]:8", Spec{Name: "main.m[go.shape.int]", Place: "main.m[go.shape.int]", Len: 8, Access: "w",
			place: place{readings: symbol("main.m[go.shape.int]", 0)}}},
		{"go:itab.*os.File,io.Reader", Spec{Name: "go:itab.*os.File,io.Reader", Place: "go:itab.*os.File,io.Reader", Access: "w",
			place: place{readings: symbol("go:itab.*os.File,io.Reader", 0)}}},
		{"prog!type:int32:8:rw", Spec{Name: "prog!type:int32", Place: "prog!type:int32", Len: 8, Access: "rw",
			place: place{module: "prog", readings: symbol("type:int32", 0)}}},
		{"libstdc++.so.6!_ZSt4cout+8", Spec{Name: "libstdc++.so.6!_ZSt4cout+8", Place: "libstdc++.so.6!_ZSt4cout+8", Access: "w",
			place: place{module: "libstdc++.so.6", readings: []reading{{base: "_ZSt4cout", offset: 8, symbol: true}, {base: "_ZSt4cout+8", symbol: true}}}}},
		{"libstdc++.so.6+0x100:w", Spec{Name: "libstdc++.so.6+0x100", Place: "libstdc++.so.6+0x100", Access: "w",
			place: place{readings: offset("libstdc++.so.6", 0x100, "libstdc++.so.6+0x100")}}},
		{"/opt/a:b/lib-2.so+0x10", Spec{Name: "/opt/a:b/lib-2.so+0x10", Place: "/opt/a:b/lib-2.so+0x10", Access: "w",
			place: place{readings: offset("/opt/a:b/lib-2.so", 0x10, "/opt/a:b/lib-2.so+0x10")}}},
		{"/opt/a:4!sym:2", Spec{Name: "/opt/a:4!sym", Place: "/opt/a:4!sym", Len: 2, Access: "w",
			place: place{module: "/opt/a:4", readings: symbol("sym", 0)}}},
		{"lib-2+0x10", Spec{Name: "lib-2+0x10", Place: "lib-2+0x10", Access: "w", place: place{readings: []reading{
			{base: "lib-2", offset: 0x10, symbol: true, file: true}, {base: "lib-2+0x10", symbol: true}}}}},
		{"prog+0x4010-8", Spec{Name: "prog+0x4010-8", Place: "prog+0x4010-8", Access: "w", place: place{readings: []reading{
			{base: "prog+0x4010", offset: ^uint64(7), symbol: true}, {base: "prog", offset: 0x4008, file: true},
			{base: "prog+0x4010-8", symbol: true}}}}},
		{"counter-8", Spec{Name: "counter-8", Place: "counter-8", Access: "w", place: place{readings: offset("counter", -8, "counter-8")}}},
		{"0x601040", Spec{Name: "0x601040", Place: "0x601040", Access: "w", place: place{address: true, addr: 0x601040}}},
		{"0X00601040+010:2", Spec{Name: "0X00601040+010", Place: "0X00601040+010", Len: 2, Access: "w", place: place{address: true, addr: 0x60104a}}},
		{"hp=0x1000-0x10:x", Spec{Name: "hp", Place: "0x1000-0x10", Access: "x", place: place{address: true, addr: 0xff0}}},
		{"hit points=g_hp", Spec{Name: "hit points", Place: "g_hp", Access: "w", place: place{readings: symbol("g_hp", 0)}}},
		{"leben.größe=g_hp:4", Spec{Name: "leben.größe", Place: "g_hp", Len: 4, Access: "w", place: place{readings: symbol("g_hp", 0)}}},
		{"n=lib=2.so!x", Spec{Name: "n", Place: "lib=2.so!x", Access: "w", place: place{module: "lib=2.so", readings: symbol("x", 0)}}},
		{"/a=b/lib!x", Spec{Name: "/a=b/lib!x", Place: "/a=b/lib!x", Access: "w", place: place{module: "/a=b/lib", readings: symbol("x", 0)}}},
		{"operator=", Spec{Name: "operator=", Place: "operator=", Access: "w", place: place{readings: symbol("operator=", 0)}}},
		{"T::operator==(T const&)::n", Spec{Name: "T::operator==(T const&)::n", Place: "T::operator==(T const&)::n", Access: "w",
			place: place{readings: symbol("T::operator==(T const&)::n", 0)}}},
		{"lib!T::operator!=(T)::n", Spec{Name: "lib!T::operator!=(T)::n", Place: "lib!T::operator!=(T)::n", Access: "w",
			place: place{module: "lib", readings: symbol("T::operator!=(T)::n", 0)}}},
		{"ns::operator<<(int)::n:4", Spec{Name: "ns::operator<<(int)::n", Place: "ns::operator<<(int)::n", Len: 4, Access: "w",
			place: place{readings: symbol("ns::operator<<(int)::n", 0)}}},
		{"T::operator->()::cache", Spec{Name: "T::operator->()::cache", Place: "T::operator->()::cache", Access: "w",
			place: place{readings: symbol("T::operator->()::cache", 0)}}},
		{"T::operator->->0x10", Spec{Name: "T::operator->->0x10", Place: "T::operator->", Hops: []int64{16}, Access: "w",
			place: place{readings: symbol("T::operator->", 0)}}},
		{"T::operator->+8", Spec{Name: "T::operator->+8", Place: "T::operator->+8", Access: "w",
			place: place{readings: offset("T::operator->", 8, "T::operator->+8")}}},
		{"T::operator-", Spec{Name: "T::operator-", Place: "T::operator-", Access: "w", place: place{readings: symbol("T::operator-", 0)}}},
		{"g->0x10->-0x28", Spec{Name: "g->0x10->-0x28", Place: "g", Hops: []int64{0x10, -0x28}, Access: "w", place: place{readings: symbol("g", 0)}}},
		{"hp=g_world->0x10->+40:4:rw", Spec{Name: "hp", Place: "g_world", Hops: []int64{0x10, 40}, Len: 4, Access: "rw",
			place: place{readings: symbol("g_world", 0)}}},
		{"lib.so!g+8->0:8", Spec{Name: "lib.so!g+8->0", Place: "lib.so!g+8", Hops: []int64{0}, Len: 8, Access: "w",
			place: place{module: "lib.so", readings: []reading{{base: "g", offset: 8, symbol: true}, {base: "g+8", symbol: true}}}}},
		{"x:18446744073709551615", Spec{Name: "x", Place: "x", Len: 1<<64 - 1, Access: "w", place: place{readings: symbol("x", 0)}}},
	}
	for _, tt := range tests {
		got, err := Parse(tt.in)
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("Parse(%q)\n got %+v, %v\nwant %+v", tt.in, got, err, tt.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	tests := []struct{ in, reason string }{
		{"", "nothing to watch"},
		{":4", "nothing to watch"},
		{":w", "nothing to watch"},
		{"x=", "nothing to watch"},
		{"x=:8:rw", "nothing to watch"},
		{"=counter", "no name before ="},
		{"->8", "nothing to watch"},
		{"counter:", "nothing after the colon"},
		{"counter::", "nothing after the last colon"},
		{"counter:0", "length 0"},
		{"counter:0x0:w", "length 0"},
		{"counter:0xzz", "length"},
		{"counter:99999999999999999999", "value out of range"},
		{"counter:abc", `"abc" is neither a length nor one of w, rw, r, x`},
		{"counter:W", `"W" is neither`},
		{"counter:-4", `"-4" is neither`},
		{"counter:4x:w", `"4x" is not a length`},
		{"counter:w:4", `"w" before the length`},
		{"counter:4:8", `"4" before the length`},
		{"main:8:x", "x takes no length"},
		{"g->abc", "offset after ->"},
		{"g->", "offset after ->"},
		{"g->0x10->", "offset after ->"},
		{"g->0x8000000000000000", "value out of range"},
		{"g->8:3", "1, 2, 4 or 8 bytes"},
		{"g->8:16", "1, 2, 4 or 8 bytes"},
		{"!x", "no module before"},
		{"lib!", "no symbol after"},
		{"counter+", "no number after"},
		{"counter+-8", "no number after"},
		{"+8", "nothing before the offset"},
		{"-0x10:4", "nothing before the offset"},
		{"1234", "an address starts with 0x"},
		{"1234+8:4", "an address starts with 0x"},
		{"0x", "address"},
		{"0xfffffffffffffffff", "value out of range"},
		{"0x10xyz", "invalid syntax"},
		{"0x10+8+8", "2 offsets after the address"},
	}
	for _, tt := range tests {
		got, err := Parse(tt.in)
		var usage *UsageError
		if !errors.As(err, &usage) || !strings.Contains(usage.Reason, tt.reason) {
			t.Errorf("Parse(%q) = %+v, %v, want a usage error with %q", tt.in, got, err, tt.reason)
			continue
		}
		if usage.Spec != tt.in || !usage.Usage() || usage.Hint() != Grammar {
			t.Errorf("Parse(%q): %+v", tt.in, usage)
		}
	}
}

// FuzzParse: any text is an error or a watch that means the same when written out in full.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"counter", "n=lib!a::b+8->-0x10:4:rw", "/a:b/c+0x10-8:24", "T::operator->->8:x", "0x10:8", "=", ":::"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		spec, err := Parse(s)
		if err != nil {
			if !errors.As(err, new(*UsageError)) {
				t.Fatalf("Parse(%q): not a usage error: %v", s, err)
			}
			return
		}
		var b strings.Builder
		b.WriteString("n=" + spec.Place)
		for _, hop := range spec.Hops {
			fmt.Fprintf(&b, "->%d", hop)
		}
		if spec.Len > 0 {
			fmt.Fprintf(&b, ":%#x", spec.Len)
		}
		fmt.Fprintf(&b, ":%s", spec.Access)
		again, err := Parse(b.String())
		if err != nil {
			t.Fatalf("Parse(%q), from %q: %v", b.String(), s, err)
		}
		again.Name = spec.Name
		if !reflect.DeepEqual(again, spec) {
			t.Fatalf("Parse(%q)\n got %+v\nwant %+v", b.String(), again, spec)
		}
	})
}
