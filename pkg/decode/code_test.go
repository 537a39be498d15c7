package decode

import (
	"testing"

	"xw/pkg/perfabi"
)

// TestCodeParts places the code that could be read at a hit.
func TestCodeParts(t *testing.T) {
	const ip = 0x1003
	for _, test := range []struct {
		name  string
		at    int
		bytes string
		start uint64
	}{
		{"all", 0, "aaaaaaaabbbbbbbb", ip - 64},
		{"the page begins before ip", 61, "abc", 0x1000},
		{"the page begins behind ip", 66, "ab", 0x1005},
		{"nothing", 0, "", ip - 64},
	} {
		t.Run(test.name, func(t *testing.T) {
			var c code
			c.set(ip, &perfabi.Hit{CodeAt: test.at, Code: []byte(test.bytes)})
			if c.start != test.start || string(c.bytes[:c.n]) != test.bytes {
				t.Errorf("got %#x %q, want %#x %q", c.start, c.bytes[:c.n], test.start, test.bytes)
			}
		})
	}
}
