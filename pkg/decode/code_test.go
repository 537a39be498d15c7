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
		ip    uint64
		flags uint32
		start uint64
		want  string
	}{
		{"all", 0x1000, perfabi.HitCodeFar | perfabi.HitCodeBefore | perfabi.HitCodeFrom, 0x1000 - 64, far + before + from},
		{"the page begins before ip", 0x1000, perfabi.HitCodeBefore | perfabi.HitCodeFrom, 0x1000 - 16, before + from},
		{"the page begins at ip", 0x1000, perfabi.HitCodeFrom, 0x1000, from},
		{"the page ends at ip", 0x1000, perfabi.HitCodeFar | perfabi.HitCodeBefore, 0x1000 - 64, far + before},
		{"3 bytes after the start of the page", 0x1003, perfabi.HitCodePage | perfabi.HitCodeFrom, 0x1000, before[:3] + from},
		{"19 bytes after the start of the page", 0x1013, perfabi.HitCodePage | perfabi.HitCodeBefore, 0x1000, far[:3] + before},
		{"more than could be read", 0x1013, perfabi.HitCodePage | perfabi.HitCodeFrom, 0x1013, from},
		{"at the start of the page", 0x1000, perfabi.HitCodePage | perfabi.HitCodeFrom, 0x1000, from},
		{"a hole between", 0x1000, perfabi.HitCodeFar | perfabi.HitCodeFrom, 0x1000, from},
	} {
		t.Run(test.name, func(t *testing.T) {
			var c code
			c.set(test.ip, &perfabi.Hit{Flags: test.flags, Far: []byte(far), Code: []byte(before + from)})
			if c.start != test.start || !bytes.Equal(c.bytes[:c.n], []byte(test.want)) {
				t.Errorf("got %#x %q, want %#x %q", c.start, c.bytes[:c.n], test.start, test.want)
			}
		})
	}
}
