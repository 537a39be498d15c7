package report

import (
	"encoding/binary"
	"slices"
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
		{"prog+0x48", 0x1004, "mov dword ptr [prog+0x4c], eax"},
		{"0x1000", 0x1004, "mov dword ptr [0x1004], eax"},
		{"", 0x1004, "mov dword ptr [0x1004], eax"},
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

// TestSilentInstruction: two hits that read the same value are one write that changed nothing, unless the instruction always
// changes the watched bytes. Another writer was faster then.
func TestSilentInstruction(t *testing.T) {
	const end = 0x100000
	operand := func(from uint64) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(from-end)) }
	for _, test := range []struct {
		name   string
		code   []byte // before its operand
		imm    []byte
		at     uint64 // of the operand
		silent Num
		before Hex
	}{
		{"add dword ptr [word], 3", []byte{0x83, 0x05}, []byte{3}, 0x1000, num(0), Hex{}},
		{"add dword ptr [word+4], 3", []byte{0x83, 0x05}, []byte{3}, 0x1004, num(0), Hex{}},
		{"add dword ptr [word], 0", []byte{0x83, 0x05}, []byte{0}, 0x1000, num(1), hex(5)},
		{"inc qword ptr [word]", []byte{0x48, 0xff, 0x05}, nil, 0x1000, num(0), Hex{}},
		{"inc qword ptr [word-4]", []byte{0x48, 0xff, 0x05}, nil, 0xffc, num(1), hex(5)},
		{"add qword ptr [word], rax", []byte{0x48, 0x01, 0x05}, nil, 0x1000, num(1), hex(5)},
		{"xor byte ptr [word], 0x80", []byte{0x80, 0x35}, []byte{0x80}, 0x1000, num(0), Hex{}},
	} {
		m := newModel(t, nil)
		code := slices.Concat(nops(64), test.code, operand(test.at), test.imm)
		m.Add(&wire.Code{IP: end, Start: end - uint64(len(code)), Bin: code})
		for i := range uint64(2) {
			s := hit(i+1, 7, end, 5)
			s.Regs = registers(i, 0, 0, 0)
			m.Add(s)
		}
		s := finish(m, wire.Counts{Counted: 2}).Watches[0].Sites[0]
		if s.Silent != test.silent || s.LastOldValue != test.before {
			t.Errorf("%s: %q: %v silent, the last over %v; want %v, %v", test.name, s.Insn, s.Silent, s.LastOldValue, test.silent, test.before)
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
