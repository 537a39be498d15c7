package target

import (
	"slices"
	"testing"
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
