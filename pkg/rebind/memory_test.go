package rebind

import (
	"strings"
	"testing"
)

func TestFixture(t *testing.T) {
	f, err := ParseFixture(strings.NewReader("# addr value since\n0x10 1\n\n0x10 2 100 # later\n16 0x3 200\n0x20 7 50\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		addr, time, value uint64
		known             bool
	}{{0x10, 0, 1, true}, {0x10, 99, 1, true}, {0x10, 100, 2, true}, {0x10, 1000, 3, true}, {0x20, 49, 0, false},
		{0x20, 50, 7, true}, {0x30, 50, 0, false}} {
		if v, ok := f.Value(test.addr, test.time); v != test.value || ok != test.known {
			t.Errorf("0x%x at %d is %d, %v, want %d, %v", test.addr, test.time, v, ok, test.value, test.known)
		}
	}
}

func TestFixtureErrors(t *testing.T) {
	for _, test := range []struct{ text, err string }{
		{"0x10 1\n0x10\n", "line 2: 1 fields"},
		{"1 2 3 4", "line 1: 4 fields"},
		{"0x10 x", `"x" is not a number`},
		{"0x 1", `"0x" is not a number`},
		{"-1 1", `"-1" is not a number`},
		{"1 1 100\n1 2 50", "line 2: 0x1 at 50 comes after a later time"},
		{strings.Repeat("1", 1<<17), "token too long"},
	} {
		if _, err := ParseFixture(strings.NewReader(test.text)); err == nil || !strings.Contains(err.Error(), test.err) {
			t.Errorf("%.20q: error %v, want %q", test.text, err, test.err)
		}
	}
}
