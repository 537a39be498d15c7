package main

import (
	"bytes"
	"testing"
)

func TestFit(t *testing.T) {
	for _, test := range []struct {
		text   string
		height int
		want   string
	}{
		{"1\n2\n3\n", 4, "1\n2\n3\n"},
		{"1\n2\n3\n", 3, "1\n(2 lines more)\n"},
		{"1\n2\n3\n", 2, "(3 lines more)\n"},
		{"1\n2\n3\n", 1, "1\n2\n3\n"},
		{"1\n2\n3\n", 0, "1\n2\n3\n"},
		{"", 2, ""},
	} {
		b := bytes.NewBufferString(test.text)
		if fit(b, test.height); b.String() != test.want {
			t.Errorf("%q in %d lines: %q, want %q", test.text, test.height, b.String(), test.want)
		}
	}
}
