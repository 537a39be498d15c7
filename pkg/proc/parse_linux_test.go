package proc

import (
	"reflect"
	"testing"
)

func TestParseMapping(t *testing.T) {
	tests := []struct {
		line string
		want Mapping
	}{
		{"7f00-7f10 r-xp 00001000 fd:01 42                         /usr/lib/libc.so.6",
			Mapping{Start: 0x7f00, End: 0x7f10, Offset: 0x1000, Prot: ProtRead | ProtExec, Dev: 0xfd01, Inode: 42, Path: "/usr/lib/libc.so.6"}},
		{"7f00-7f10 rw-s 00000000 103:00002 7 /a b\\012c\\040d (deleted)",
			Mapping{Start: 0x7f00, End: 0x7f10, Prot: ProtRead | ProtWrite, Shared: true, Dev: 0x10302, Inode: 7, Path: "/a b\nc\\040d", Deleted: true}},
		{"00400000-00401000 ---p 00000000 00:00 0 ", Mapping{Start: 0x400000, End: 0x401000}},
		{"ff00-ff10 rw-p 00000000 00:00 0 [anon:a (deleted)]",
			Mapping{Start: 0xff00, End: 0xff10, Prot: ProtRead | ProtWrite, Path: "[anon:a (deleted)]"}},
		{"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]",
			Mapping{Start: 0xffffffffff600000, End: 0xffffffffff601000, Prot: ProtExec, Path: "[vsyscall]"}},
	}
	for _, tt := range tests {
		got, err := parseMapping(tt.line)
		if err != nil || got != tt.want {
			t.Errorf("parseMapping(%q) = %+v, %v, want %+v", tt.line, got, err, tt.want)
		}
	}
	for _, line := range []string{"", "x", "1-2", "1-2 rw-p 0 0", "g-2 rw-p 0 0:0 0", "1-2 rw-p 0 0:0 x"} {
		if m, err := parseMapping(line); err == nil {
			t.Errorf("parseMapping(%q) = %+v, want an error", line, m)
		}
	}
}

func TestParseStat(t *testing.T) {
	const tail = " 1 1 1 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 5 0 98765 1000 10"
	tests := []struct {
		in   string
		want stat
	}{
		{"12 (sh) S" + tail, stat{comm: "sh", state: 'S', flags: 4194560, start: 98765}},
		{"12 (a) R (b) 7) Z" + tail + "\n", stat{comm: "a) R (b) 7", state: 'Z', flags: 4194560, start: 98765}},
	}
	for _, tt := range tests {
		if got, err := parseStat([]byte(tt.in)); err != nil || got != tt.want {
			t.Errorf("parseStat(%q) = %+v, %v, want %+v", tt.in, got, err, tt.want)
		}
	}
	for _, in := range []string{"", "1 (a", "1 ) (", "1 (a) S 1 2", "1 (a) SS" + tail} {
		if got, err := parseStat([]byte(in)); err == nil {
			t.Errorf("parseStat(%q) = %+v, want an error", in, got)
		}
	}
}

func TestParseAuxv(t *testing.T) {
	in := []byte{3, 0, 0, 0, 0x40, 0, 0, 8, 6, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0}
	if got, want := parseAuxv(in, 4), map[uint64]uint64{3: 0x08000040, 6: 4096}; !reflect.DeepEqual(got, want) {
		t.Errorf("parseAuxv = %v, want %v", got, want)
	}
	if got := parseAuxv(in[:7], 8); len(got) != 0 {
		t.Errorf("parseAuxv of a cut vector = %v", got)
	}
}

func TestMonotonicNeverWraps(t *testing.T) {
	p := &Process{clock: 5_000_000_000}
	if got := p.monotonic(100); got != 0 {
		t.Errorf("born before the last suspend: %d, want 0", got)
	}
	if got := p.monotonic(700); got != 2_000_000_000 {
		t.Errorf("monotonic(700) = %d", got)
	}
}
