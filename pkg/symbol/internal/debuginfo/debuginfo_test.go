package debuginfo

import (
	"bytes"
	"io"
	"math"
	"reflect"
	"testing"
)

func section(b []byte) *io.SectionReader {
	return io.NewSectionReader(bytes.NewReader(b), 0, int64(len(b)))
}

func TestCursorLEB(t *testing.T) {
	for _, c := range []struct {
		bytes    []byte
		unsigned uint64
		signed   int64
	}{
		{[]byte{0x02}, 2, 2},
		{[]byte{0x7e}, 126, -2},
		{[]byte{0xff, 0x00}, 127, 127},
		{[]byte{0x81, 0x7f}, 16257, -127},
		{[]byte{0x80, 0x01}, 128, 128},
		{[]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, math.MaxUint64, -1},
		{[]byte{0x80, 0x80, 0x00}, 0, 0}, // padded
	} {
		cur := newCursor(section(c.bytes), 0, math.MaxInt64)
		if got := cur.uleb(); got != c.unsigned || cur.err != nil || cur.left() != 0 {
			t.Errorf("% x: got %d, %v", c.bytes, got, cur.err)
		}
		cur.seek(0)
		if got := cur.sleb(); got != c.signed || cur.err != nil {
			t.Errorf("% x signed: got %d, %v", c.bytes, got, cur.err)
		}
	}
}

func TestCursorEnd(t *testing.T) {
	for name, read := range map[string]func(*cursor){
		"uint":   func(c *cursor) { c.uint(4) },
		"uleb":   func(c *cursor) { c.uleb() },
		"sleb":   func(c *cursor) { c.sleb() },
		"skip":   func(c *cursor) { c.skip(math.MaxUint64) },
		"string": func(c *cursor) { c.skipString() },
		"seek":   func(c *cursor) { c.seek(4) },
		"back":   func(c *cursor) { c.seek(-1) },
	} {
		c := newCursor(section([]byte{0x80, 0x81, 0x82}), 0, 3)
		if read(c); c.err == nil {
			t.Errorf("%s: no error beyond the end", name)
		}
		if c.u8() != 0 || c.left() != 0 {
			t.Errorf("%s: something is read after the error", name)
		}
	}
	if c := newCursor(nil, 0, 5); c.u8() != 0 || c.err == nil {
		t.Error("a section that is not there can be read")
	}
}

// A value read across the end of the window is whole.
func TestCursorWindow(t *testing.T) {
	b := make([]byte, 3*window)
	for i := range b {
		b[i] = byte(i * 7)
	}
	c := newCursor(section(b), 1, int64(len(b)))
	for off := int64(1); off+8 <= int64(len(b)); off += 8 {
		want := newCursor(section(b), off, int64(len(b))).uint(8)
		if got := c.uint(8); got != want || c.offset() != off+8 {
			t.Fatalf("at %d: got %#x, expected %#x", off, got, want)
		}
	}
}

func TestStringAt(t *testing.T) {
	long := bytes.Repeat([]byte("x"), 5000)
	s := section(append(append([]byte("one\x00two\x00"), long...), "\x00open"...))
	for off, want := range map[uint64]string{0: "one", 1: "ne", 4: "two", 8: string(long), 8 + 5001: "", 1 << 40: ""} {
		if got := stringAt(s, off); got != want {
			t.Errorf("at %d: got %d bytes, expected %d", off, len(got), len(want))
		}
	}
	if stringAt(section(bytes.Repeat([]byte("y"), 4*maxString)), 0) != "" {
		t.Error("a string without an end is a string")
	}
}

// handMade are sections that describe one unit of version 5 at 0x1000: a function f with an inlined call of itself at
// 0x1004 to 0x100c, and a line table of one file, d/a.
func handMade() (abbrev, info, line, rnglists []byte) {
	abbrev = []byte{
		1, 0x11, 1, 0x11, 0x01, 0x12, 0x0b, 0x10, 0x17, 0, 0, // compile unit: low_pc addr, high_pc data1, stmt_list sec_offset
		2, 0x2e, 1, 0x03, 0x08, 0x11, 0x01, 0x12, 0x0b, 0, 0, // subprogram: name string, low_pc addr, high_pc data1
		3, 0x1d, 0, 0x31, 0x13, 0x55, 0x17, 0x58, 0x0b, 0x59, 0x0b, 0, 0, // inlined: origin ref4, ranges, call_file, call_line
		0}
	info = []byte{0, 0, 0, 0, 5, 0, 1, 8, 0, 0, 0, 0,
		1, 0, 16, 0, 0, 0, 0, 0, 0, 64, 0, 0, 0, 0,
		2, 'f', 0, 0, 16, 0, 0, 0, 0, 0, 0, 64,
		3, 26, 0, 0, 0, 12, 0, 0, 0, 0, 9,
		0, 0}
	info[0] = byte(len(info) - 4)
	line = []byte{0, 0, 0, 0, 5, 0, 8, 0, 0, 0, 0, 0, 1, 1, 1, 0xfb, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1,
		1, 1, 8, 1, 'd', 0, // directories: path string
		2, 1, 8, 2, 0x0b, 1, 'a', 0, 0, // files: path string, directory data1
		0, 9, 2, 0, 16, 0, 0, 0, 0, 0, 0, // set address 0x1000
		4, 0, 20, 2, 64, 0, 1, 1} // file 0, a row of line 3, 64 bytes on, end
	line[0] = byte(len(line) - 4)
	line[8] = 33
	rnglists = []byte{12, 0, 0, 0, 5, 0, 8, 0, 0, 0, 0, 0, 4, 4, 12, 0} // 0x1004 to 0x100c
	return abbrev, info, line, rnglists
}

func TestHandMade(t *testing.T) {
	abbrev, info, line, rnglists := handMade()
	parts := map[string][]byte{".debug_abbrev": abbrev, ".debug_info": info, ".debug_line": line, ".debug_rnglists": rnglists}
	d := New(Config{Text: [][2]uint64{{0x1000, 0x2000}}, Sections: func(name string) *io.SectionReader {
		if b, ok := parts[name]; ok {
			return section(b)
		}
		return nil
	}})
	plain := Place{File: "d/a", Line: 3, Func: "f", Start: 0x1000}
	call := plain
	call.Calls = []Call{{"f", "d/a", 9}}
	for pc, want := range map[uint64]Place{0xfff: {}, 0x1000: plain, 0x1003: plain, 0x1004: call, 0x100b: call, 0x100c: plain, 0x1040: {}} {
		if got, ok := d.Find(pc); !reflect.DeepEqual(got, want) || ok != (want.Func != "") {
			t.Errorf("%#x: got %+v, expected %+v", pc, got, want)
		}
	}
}

func FuzzFind(f *testing.F) {
	abbrev, info, line, rnglists := handMade()
	f.Add(abbrev, info, line, rnglists, uint64(0x1005))
	f.Fuzz(func(t *testing.T, abbrev, info, line, rnglists []byte, pc uint64) {
		parts := map[string][]byte{".debug_abbrev": abbrev, ".debug_info": info, ".debug_line": line, ".debug_rnglists": rnglists,
			".debug_ranges": rnglists, ".debug_addr": rnglists, ".debug_str": line, ".debug_str_offsets": rnglists, ".debug_line_str": line}
		get := func(name string) *io.SectionReader {
			if b, ok := parts[name]; ok {
				return section(b)
			}
			return nil
		}
		d := New(Config{Sections: get, Text: [][2]uint64{{0, math.MaxUint64}}, Split: func(string, string) (Sections, func()) {
			return func(name string) *io.SectionReader { return get(name[:len(name)-len(".dwo")]) }, func() {}
		}})
		d.Find(pc)
		d.Find(pc + 100)
		d.Close()
	})
}
