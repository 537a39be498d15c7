package target

import (
	"errors"
	"slices"
	"testing"

	"xw/pkg/symbol"
)

func TestEditDistance(t *testing.T) {
	tests := []struct {
		a, b  string
		limit int
		want  int
	}{
		{"", "", 3, 0}, {"counter", "counter", 3, 0}, {"counter", "cuonter", 3, 1}, {"counter", "counte", 3, 1},
		{"counter", "counters", 3, 1}, {"counter", "conuters", 3, 2}, {"abc", "xyz", 3, 3}, {"abcdef", "uvwxyz", 3, 4},
		{"abc", "abcdefgh", 3, 4}, {"", "ab", 3, 2},
	}
	for _, tt := range tests {
		if got := editDistance(tt.a, tt.b, tt.limit); got != tt.want {
			t.Errorf("editDistance(%q, %q, %d) = %d, want %d", tt.a, tt.b, tt.limit, got, tt.want)
		}
		if got := editDistance(tt.b, tt.a, tt.limit); got != tt.want {
			t.Errorf("editDistance(%q, %q, %d) = %d, want %d", tt.b, tt.a, tt.limit, got, tt.want)
		}
	}
}

func TestNearest(t *testing.T) {
	names := []string{"main.counter", "counter_b", "ns::counter", "main.Counter2", "unrelated", "zzz", "COUNTER"}
	if got, want := nearest("counter", names), []string{"COUNTER", "main.counter", "ns::counter", "counter_b"}; !slices.Equal(got, want) {
		t.Errorf("nearest = %q, want %q", got, want)
	}
	if got := nearest("q", []string{"abcdef"}); got != nil {
		t.Errorf("nearest = %q", got)
	}
}

func TestGlob(t *testing.T) {
	tests := []struct {
		pattern, name string
		want          bool
	}{
		{"*", "", true}, {"a*c", "abbc", true}, {"a*c", "abcd", false}, {"a?c", "abc", true}, {"a?c", "ac", false},
		{"*x*y", "axbxcy", true}, {"main.(*T).*", "main.(*T).x", true}, {"**a**", "a", true}, {"?", "", false}, {"a*", "b", false},
	}
	for _, tt := range tests {
		if got := glob(tt.pattern, tt.name); got != tt.want {
			t.Errorf("glob(%q, %q) = %t", tt.pattern, tt.name, got)
		}
	}
}

// TestManyOfOneName lists all modules, and of each no more than a reader can look at.
func TestManyOfOneName(t *testing.T) {
	prog, lib := &module{path: "/bin/prog", exe: true}, &module{path: "/lib/libx.so"}
	many := func(m *module, from, n uint64) (list []found) {
		for i := range n {
			list = append(list, found{m, symbol.Sym{Name: "lock", Demangled: "lock", Type: symbol.Object}, from + i})
		}
		return list
	}
	for _, test := range []struct {
		name       string
		syms       []found
		text, hint string
	}{
		{"the program has one", append(many(prog, 1, 1), many(lib, 0x10, 7)...),
			`"lock" is ambiguous: prog!lock at 0x1, libx.so!lock at 0x10, libx.so!lock at 0x11, libx.so!lock at 0x12, ` +
				`libx.so!lock at 0x13, libx.so!lock at 0x14, 2 more in libx.so`, "name the module: MODULE!SYMBOL, as in prog!lock"},
		{"the program has two", append(many(prog, 1, 2), many(lib, 0x10, 1)...),
			`"lock" is ambiguous: prog!lock at 0x1, prog!lock at 0x2, libx.so!lock at 0x10`, "name the module, MODULE!SYMBOL, or give the address, 0xADDR"},
		{"one module", many(lib, 1, 2), `"lock" is ambiguous: libx.so!lock at 0x1, libx.so!lock at 0x2`, "give the address: 0xADDR"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := (&resolver{}).ambiguous(Spec{Name: "w"}, "lock", test.syms)
			var e *Ambiguous
			if !errors.As(err, &e) || e.Error() != `watch "w": `+test.text || e.Hint() != test.hint || len(e.Places) != len(test.syms) {
				t.Errorf("%v\nhint: %s", err, e.Hint())
			}
		})
	}
}
