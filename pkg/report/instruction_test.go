package report

import (
	"testing"

	"xw/pkg/wire"
)

// TestNameOfWatchedBytes counts from the symbol, and not from where the watch begins.
func TestNameOfWatchedBytes(t *testing.T) {
	for _, test := range []struct {
		place string
		addr  uint64
		want  string
	}{
		{"prog!buf", 0x1000, "mov dword ptr [buf], eax"},
		{"prog!buf", 0x1004, "mov dword ptr [buf+0x4], eax"},
		{"prog!buf+0x5", 0x1000, "mov dword ptr [buf+0x5], eax"},
		{"prog!buf+0x5", 0x1001, "mov dword ptr [buf+0x6], eax"},
		{"prog!buf-0x4", 0x1000, "mov dword ptr [buf-0x4], eax"},
		{"prog!buf-0x4", 0x1004, "mov dword ptr [buf-0x4+0x4], eax"},
		{"prog!operator++", 0x1000, "mov dword ptr [operator++], eax"},
	} {
		m := newModel(t, func(s *wire.Session) {
			s.Watches[0].Place, s.Watches[0].Addr = test.place, wire.Some(0x1000)
		})
		const ip = 0x100007
		disp := int32(test.addr) - ip
		code := append(nops(64), 0x89, 0x05, byte(disp), byte(disp>>8), byte(disp>>16), byte(disp>>24))
		m.Add(&wire.Code{IP: ip, Start: ip - uint64(len(code)), Bin: code})
		s := hit(1, 7, ip, 1)
		s.Regs = registers(0, 0, 0, 0)
		m.Add(s)
		if got := finish(m, wire.Counts{Counted: 1}).Watches[0].Sites[0].Insn; string(got) != test.want {
			t.Errorf("%s at %#x: %q, want %q", test.place, test.addr, got, test.want)
		}
	}
}

// TestPlaceWithoutItsFile names the file all the same.
func TestPlaceWithoutItsFile(t *testing.T) {
	for _, test := range []struct {
		place Place
		want  string
	}{
		{Place{Module: "libx.so", Note: "file not found"}, "0x400510 (libx.so)"},
		{Place{Module: "prog", Note: "file not found", home: true}, "0x400510 (prog)"},
		{Place{Module: "libx.so", ModuleOffset: hex(0x510)}, "libx.so+0x510"},
		{Place{Module: "[anon]"}, "0x400510"},
		{Place{Note: "no mapping"}, "0x400510 (no mapping)"},
	} {
		if got := placeWords(test.place, hex(0x400510)); got != test.want {
			t.Errorf("%+v: %q, want %q", test.place, got, test.want)
		}
	}
}
