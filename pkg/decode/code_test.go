package decode

import (
	"bytes"
	"strings"
	"testing"

	"xw/pkg/perfabi"
)

// TestCodeParts puts together the parts of the code that could be read at a hit.
func TestCodeParts(t *testing.T) {
	far, before, from := strings.Repeat("f", perfabi.HitFarSize), strings.Repeat("b", 16), strings.Repeat("a", 16)
	for _, test := range []struct {
		name  string
		flags uint32
		start uint64
		want  string
	}{
		{"all", perfabi.HitCodeFar | perfabi.HitCodeBefore | perfabi.HitCodeFrom, 0x1000 - 64, far + before + from},
		{"the page begins before ip", perfabi.HitCodeBefore | perfabi.HitCodeFrom, 0x1000 - 16, before + from},
		{"the page begins at ip", perfabi.HitCodeFrom, 0x1000, from},
		{"the page ends at ip", perfabi.HitCodeFar | perfabi.HitCodeBefore, 0x1000 - 64, far + before},
		{"a hole between", perfabi.HitCodeFar | perfabi.HitCodeFrom, 0x1000, from},
	} {
		t.Run(test.name, func(t *testing.T) {
			var c code
			c.set(0x1000, &perfabi.Hit{Flags: test.flags, Far: []byte(far), Code: []byte(before + from)})
			if c.start != test.start || !bytes.Equal(c.bytes[:c.n], []byte(test.want)) {
				t.Errorf("got %#x %q, want %#x %q", c.start, c.bytes[:c.n], test.start, test.want)
			}
		})
	}
}
