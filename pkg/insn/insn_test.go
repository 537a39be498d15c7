package insn

import (
	"encoding/hex"
	"strings"
	"testing"

	"xw/pkg/wire"
)

const (
	base    = 0x401000 // of the code in these tests
	watched = 0x7000   // of the eight watched bytes
)

// unhex turns hexadecimal digits with spaces into bytes.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// registers gives register values by name; all others are of no use as addresses.
func registers(values map[int]uint64) *[16]uint64 {
	var regs [16]uint64
	for i := range regs {
		regs[i] = 0xdead000000000000 + uint64(i)<<32
	}
	for i, v := range values {
		regs[i] = v
	}
	return &regs
}

// nops is padding to the full length that is looked back.
var nops = strings.Repeat("90", lookBack)

type findCase struct {
	name   string
	before string // code before ip, in hexadecimal
	after  string // code from ip on
	regs   map[int]uint64
	edit   func(*Input)

	status Status
	op     string
	text   string
	reason string // a part of it
}

func (c *findCase) input(t testing.TB) *Input {
	code := unhex(t, c.before)
	in := &Input{IP: base + uint64(len(code)), Bits: 64, Access: "rw", Addr: watched, Len: 8, CodeStart: base,
		Code: append(code, unhex(t, c.after)...), Regs: registers(c.regs)}
	if c.edit != nil {
		c.edit(in)
	}
	return in
}

func (c *findCase) check(t *testing.T) {
	r := Find(c.input(t))
	if r.Status != c.status || r.Op != c.op || r.Text != c.text || !strings.Contains(r.Reason, c.reason) {
		t.Errorf("%s %s %q (%s), want %s %s %q (%s)", r.Status, r.Op, r.Text, r.Reason, c.status, c.op, c.text, c.reason)
	}
	if (r.Status == Exact) != (r.Reason == "") {
		t.Errorf("status %s with reason %q", r.Status, r.Reason)
	}
}

// inPage moves the code away from the start of the page, before which there may be none.
func inPage(in *Input) {
	in.IP += 0x20
	in.CodeStart += 0x20
}

func writeOnly(in *Input) { in.Access = "w" }

func wholeFunction(in *Input) { in.FuncStart = base }

// found are hits whose instruction can be told.
var found = []findCase{
	{name: "the only one", before: nops + "48 89 07", regs: map[int]uint64{regDI: watched},
		status: Exact, op: Write, text: "mov qword ptr [rdi], rax"},
	{name: "by the function's start", before: "b0 48 48 89 07", edit: wholeFunction, regs: map[int]uint64{regDI: watched},
		status: Exact, op: Write, text: "mov qword ptr [rdi], rax"},
	{name: "the other one by the function's start", before: "90 b0 48 89 07", edit: wholeFunction,
		regs: map[int]uint64{regDI: watched}, status: Exact, op: Write, text: "mov dword ptr [rdi], eax"},
	{name: "past endbr64 and vzeroupper", before: "f3 0f 1e fa c5 f8 77 48 89 07", edit: wholeFunction,
		regs: map[int]uint64{regDI: watched}, status: Exact, op: Write, text: "mov qword ptr [rdi], rax"},
	{name: "by backward decoding in a function with data", before: "06 06 06" + nops + "48 89 07", edit: wholeFunction,
		regs: map[int]uint64{regDI: watched}, status: Exact, op: Write, text: "mov qword ptr [rdi], rax"},
	{name: "far from the function's start", before: strings.Repeat("90", 2000) + "48 89 07", edit: wholeFunction,
		regs: map[int]uint64{regDI: watched}, status: Exact, op: Write, text: "mov qword ptr [rdi], rax"},
	{name: "code right after data", before: strings.Repeat("06", lookBack-2) + "88 07", regs: map[int]uint64{regDI: watched},
		status: Exact, op: Write, text: "mov byte ptr [rdi], al"},
	{name: "a register that the instruction overwrote unnamed", before: nops + "66 0f 3a 63 01 00",
		status: Exact, op: Read, text: "pcmpistri xmm0, xmmword ptr [rcx], 0x0"},
	{name: "only the prefixed one reaches the watched bytes", before: strings.Repeat("90", 13) + "48 89 47 f8",
		regs: map[int]uint64{regDI: watched + 4}, edit: func(in *Input) { in.Addr += 4; in.Len = 4; in.Regs[regDI] = watched + 8 },
		status: Exact, op: Write, text: "mov qword ptr [rdi-0x8], rax"},
	{name: "a register that the instruction overwrote", before: nops + "48 8b 00",
		status: Exact, op: Read, text: "mov rax, qword ptr [rax]"},
	{name: "the base of fs is not known", before: nops + "64 48 89 04 25 28 00 00 00", edit: writeOnly,
		status: Exact, op: Write, text: "mov qword ptr fs:[0x28], rax"},
	{name: "a VEX instruction with a segment", before: nops + "64 c5 fe 7f 07",
		status: Exact, op: Write, text: "vmovdqu ymmword ptr fs:[rdi], ymm0"},
	{name: "without registers", before: nops + "01 07", edit: func(in *Input) { in.Regs = nil },
		status: Exact, op: ReadWrite, text: "add dword ptr [rdi], eax"},
	{name: "either of two operands, without registers", before: nops + "ff 37", edit: func(in *Input) { in.Regs = nil },
		status: Exact, op: Unknown, text: "push qword ptr [rdi]"},
	{name: "an instruction without a name here", before: nops + "62 f5 7e 08 11 07", regs: map[int]uint64{regDI: watched},
		edit: writeOnly, status: Exact, op: Unknown, text: ".byte 0x62, 0xf5, 0x7e, 0x08, 0x11, 0x07"},
	{name: "32-bit code", before: nops + "40 ff 07", edit: func(in *Input) { in.Bits = 32 },
		regs: map[int]uint64{regDI: watched}, status: Exact, op: ReadWrite, text: "inc dword ptr [edi]"},
	{name: "16-bit addresses", before: nops + "67 88 47 ff", edit: func(in *Input) { in.Bits = 32 },
		regs: map[int]uint64{regBX: 0x33337001}, status: Exact, op: Write, text: "mov byte ptr [bx-0x1], al"},
	{name: "kernel code of a 32-bit process", before: nops + "48 89 07", regs: map[int]uint64{regDI: watched},
		edit: func(in *Input) { in.Bits, in.Kernel = 32, true }, status: Exact, op: Write, text: "mov qword ptr [rdi], rax"},
	{name: "a string instruction at ip", before: nops, after: "f3 aa", regs: map[int]uint64{regDI: watched + 1, regCX: 5},
		status: Exact, op: Write, text: "rep stos byte ptr es:[rdi], al"},
	{name: "a string instruction that reports late", before: nops, after: "f3 a4", edit: writeOnly,
		regs: map[int]uint64{regDI: watched + 64, regCX: 5}, status: Exact, op: Write,
		text: "rep movs byte ptr es:[rdi], byte ptr ds:[rsi]"},
	{name: "a string instruction that has ended", before: nops + "f3 aa", regs: map[int]uint64{regDI: watched + 8, regCX: 0},
		status: Exact, op: Write, text: "rep stos byte ptr es:[rdi], al"},
	{name: "a comparison that has ended early", before: nops + "f2 ae", regs: map[int]uint64{regDI: watched + 8, regCX: 3},
		status: Exact, op: Read, text: "repnz scas al, byte ptr es:[rdi]"},
	{name: "an execute watch", before: nops, after: "48 89 07", edit: func(in *Input) { in.Access = "x" },
		status: Exact, op: Execute, text: "mov qword ptr [rdi], rax"},
	{name: "a direct call, by the value it pushed", before: "e8 10 00 00 00" + nops, edit: calledFromBase,
		regs: map[int]uint64{regSP: watched}, status: Exact, op: Write, text: "call 0x401015"},
	{name: "a call through memory, by the stack", before: "ff 15" + "fa 5f c0 ff" + nops, edit: calledThroughMemory,
		regs: map[int]uint64{regSP: 0x9000}, status: Exact, op: Read, text: "call qword ptr [0x7000]"},
	{name: "the first code of a page", before: "48 89 07", regs: map[int]uint64{regDI: watched},
		status: Exact, op: Write, text: "mov qword ptr [rdi], rax"},
	{name: "near the start of a page", before: strings.Repeat("90", 13) + "48 89 07", regs: map[int]uint64{regDI: watched},
		status: Exact, op: Write, text: "mov qword ptr [rdi], rax"},
}

// calledFromBase makes the return address the watched value, and ip the target of the call at base.
func calledFromBase(in *Input) {
	in.IP, in.Access, in.Value = base+0x15, "w", wire.Some(base+5)
	in.Code = append(unhexFixed(nops), in.Code...)
	in.CodeStart -= lookBack
}

func calledThroughMemory(in *Input) {
	in.IP = base + 0x20
	in.Stack = func(addr uint64) (uint64, bool) { return base + 6, addr == 0x9000 }
	in.Code = append(unhexFixed(nops), in.Code...)
	in.CodeStart -= lookBack
}

func unhexFixed(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}

func TestFound(t *testing.T) {
	for _, c := range found {
		t.Run(c.name, c.check)
	}
}

// missed are hits whose instruction cannot be told, and must not be guessed.
var missed = []findCase{
	{name: "no code", edit: func(in *Input) { in.Code = nil }, status: NotFound, op: Unknown, reason: "no code bytes"},
	{name: "data at the start of a page", before: "06 48 89 07", regs: map[int]uint64{regDI: watched},
		status: Ambiguous, op: Write, reason: "2 instructions could have made the access: mov qword ptr [rdi], rax; mov dword"},
	{name: "no instruction", before: strings.Repeat("06", 20), status: NotFound, op: Unknown, reason: "no instruction can be"},
	{name: "no instruction at ip", before: nops, after: "06", edit: func(in *Input) { in.Access = "x" },
		status: NotFound, op: Execute, reason: "no instruction can be decoded at ip"},
	{name: "code too short to tell", before: strings.Repeat("90", 13) + "48 89 07", regs: map[int]uint64{regDI: watched}, edit: inPage,
		status: Ambiguous, op: Write, reason: "2 instructions could have made the access: mov qword ptr [rdi], rax; mov dword"},
	{name: "code shorter than an instruction", before: "90 90 88 07", regs: map[int]uint64{regDI: watched}, edit: inPage,
		status: Ambiguous, op: Unknown, reason: "begins before"},
	{name: "two operations", before: "b8 00 00 00 00 00 00 00 00 00 00 00 00 0f 11 03", regs: map[int]uint64{regBX: watched}, edit: inPage,
		status: Ambiguous, op: Unknown, reason: "movups"},
	{name: "another operand", before: nops + "48 89 07", regs: map[int]uint64{regDI: watched + 8},
		status: NotFound, op: Unknown, reason: "mov qword ptr [rdi], rax ends at ip and does not touch"},
	{name: "a read under a write watch", before: nops + "48 8b 07", edit: writeOnly, regs: map[int]uint64{regDI: watched},
		status: NotFound, op: Unknown, reason: "does not touch"},
	{name: "an address that cannot be checked among several", before: strings.Repeat("90", 13) + "48 8b 00", edit: inPage,
		status: Ambiguous, op: Read, reason: "mov rax, qword ptr [rax]; mov eax"},
	{name: "lea and nop", before: nops + "48 8d 07", regs: map[int]uint64{regDI: watched},
		status: NotFound, op: Unknown, reason: "does not touch"},
	{name: "an EVEX prefix that AVX-512 does not have", before: nops + "62 f9 7c 48 11 07", regs: map[int]uint64{regDI: watched},
		status: Ambiguous, op: ReadWrite, reason: "adc qword ptr [rdi], rax; adc dword ptr [rdi], eax"},
	{name: "a jump, call or return before ip", before: nops + "ff 27", regs: map[int]uint64{regDI: watched},
		status: NotFound, op: Unknown, reason: "does not lead there"},
	{name: "a jump through the watched value", before: nops + "c3", edit: func(in *Input) { in.Value = wire.Some(in.IP) },
		status: NotFound, op: Read, reason: "a jump or call through the watched bytes"},
	{name: "a return through the watched bytes", before: nops + "e8 00 00 00 00", regs: map[int]uint64{regSP: watched + 8},
		status: NotFound, op: Read, reason: "a return through the watched bytes"},
	{name: "the start of a function", before: nops, edit: func(in *Input) { in.FuncStart = in.IP },
		status: NotFound, op: Unknown, reason: "start of a function"},
	{name: "a call to elsewhere", before: "e8 20 00 00 00" + nops, edit: calledFromBase, regs: map[int]uint64{regSP: watched},
		status: NotFound, op: Unknown, reason: "nop"},
	{name: "a string instruction with nothing left", before: nops, after: "f3 aa",
		regs: map[int]uint64{regDI: watched + 1, regCX: 0}, status: NotFound, op: Unknown, reason: "nop"},
	{name: "a string instruction that cannot have ended", before: nops + "f3 aa",
		regs: map[int]uint64{regDI: watched + 1, regCX: 7}, status: NotFound, op: Unknown, reason: "rep stos"},
	{name: "the last one or the string instruction at ip", before: nops + "88 47 04", after: "f3 aa",
		regs: map[int]uint64{regDI: watched + 1, regCX: 7}, status: Ambiguous, op: Write, reason: "2 instructions"},
	{name: "files that disagree with the code at the hit", before: strings.Repeat("90", 13) + "48 89 07",
		regs: map[int]uint64{regDI: watched}, edit: func(in *Input) {
			inPage(in)
			in.ReadCode = func(_ uint64, p []byte) int { return copy(p, strings.Repeat("\x90", len(p))) }
		}, status: Ambiguous, op: Write, reason: "2 instructions"},
	{name: "both directions of a string instruction, with different operations", before: nops + "a4",
		regs: map[int]uint64{regDI: watched + 8, regSI: watched - 1}, status: Exact, op: Unknown,
		text: "movs byte ptr es:[rdi], byte ptr ds:[rsi]"},
}

func TestMissed(t *testing.T) {
	for _, c := range missed {
		t.Run(c.name, c.check)
	}
}

func TestReadCode(t *testing.T) {
	file := append(unhex(t, nops), unhex(t, "48 89 07 c3")...)
	in := &Input{IP: base + lookBack + 3, Bits: 64, Access: "w", Addr: watched, Len: 8,
		Regs: registers(map[int]uint64{regDI: watched}),
		Code: file[lookBack-2:], CodeStart: base + lookBack - 2,
		ReadCode: func(addr uint64, p []byte) int {
			if addr < base || addr > base+uint64(len(file)) {
				return 0
			}
			return copy(p, file[addr-base:])
		}}
	for _, start := range []uint64{0, base} {
		in.FuncStart = start
		if r := Find(in); r.Status != Exact || r.Addr != base+lookBack || r.Len != 3 {
			t.Errorf("with function %#x: %+v", start, r)
		}
	}
}

func TestSymbols(t *testing.T) {
	symbol := func(addr uint64) (string, uint64) {
		if addr >= watched && addr < watched+8 {
			return "counter", watched
		}
		return "", 0
	}
	for code, want := range map[string]string{
		"48 89 05 f9 5f c0 ff":             "mov qword ptr [counter], rax",
		"48 89 05 fd 5f c0 ff":             "mov qword ptr [counter+0x4], rax",
		"48 89 05 00 00 00 00":             "mov qword ptr [0x401007], rax",
		"c7 04 25 00 70 00 00 00 70 00 00": "mov dword ptr [counter], 0x7000",
		"e8 fb 5f c0 ff":                   "call counter",
	} {
		in, ok := decode(unhex(t, code), base, 64)
		if got := in.text(symbol); !ok || got != want {
			t.Errorf("%s: %q, want %q", code, got, want)
		}
	}
}

func TestWithin(t *testing.T) {
	r := Result{Operand: wire.Some(0x1000), Size: 8}
	wide := Result{Operand: wire.Some(0x1000), Size: 16}
	v := wire.Some(0x1122334455667788)
	for _, c := range []struct {
		r    Result
		v    wire.Opt
		addr uint64
		n    uint64
		want wire.Opt
	}{
		{r, v, 0x1000, 8, v},
		{r, v, 0x1004, 4, wire.Some(0x11223344)},
		{r, v, 0x1007, 1, wire.Some(0x11)},
		{r, v, 0x1007, 2, wire.Opt{}},
		{r, v, 0xfff, 2, wire.Opt{}},
		{r, v, 0x1009, 1, wire.Opt{}},
		{r, wire.Opt{}, 0x1000, 8, wire.Opt{}},
		{Result{Size: 8}, v, 0, 8, wire.Opt{}},
		{wide, v, 0x1000, 8, wire.Opt{}},
	} {
		if got := c.r.Within(c.v, c.addr, c.n); got != c.want {
			t.Errorf("%d bytes at %#x: %+v, want %+v", c.n, c.addr, got, c.want)
		}
	}
}

// BenchmarkFind is a hit in the middle of a function, with 64 bytes of code and without its start.
func BenchmarkFind(b *testing.B) {
	c := findCase{before: nops + "48 89 07", regs: map[int]uint64{regDI: watched}}
	in := c.input(b)
	for b.Loop() {
		Find(in)
	}
}

func FuzzFind(f *testing.F) {
	f.Add([]byte("\x48\x89\x07"), uint8(3), uint64(watched), uint8(0), uint64(0))
	f.Add([]byte("\xf3\xa4"), uint8(0), uint64(watched), uint8(1), uint64(3))
	f.Add([]byte("\x62\xf1\x7c\x48\x11\x47\x01\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90"), uint8(7), uint64(watched), uint8(2), uint64(1))
	f.Fuzz(func(t *testing.T, code []byte, at uint8, addr uint64, mode uint8, seed uint64) {
		var regs [16]uint64
		for i := range regs {
			regs[i] = addr + seed*uint64(i)
		}
		in := &Input{IP: base + uint64(at), Bits: 32 << (mode & 1), Kernel: mode&2 != 0, Regs: &regs,
			Access: [...]string{"w", "rw", "r", "x"}[mode>>2&3], Addr: addr, Len: 8, Code: code, CodeStart: base,
			Value: wire.Some(base + seed), Stack: func(uint64) (uint64, bool) { return base + seed, true }}
		if mode&16 != 0 {
			in.FuncStart = base
		}
		if mode&32 != 0 {
			in.Regs = nil
		}
		r := Find(in)
		if (r.Status == Exact) != (r.Reason == "") || (r.Status == Exact) != (r.Text != "") || r.Op == "" {
			t.Errorf("%+v", r)
		}
		if r.Status == Exact && in.Access != "x" && !r.Rep && r.Addr+uint64(r.Len) != in.IP && !strings.Contains(r.Text, "call") {
			t.Errorf("%q at %#x of %d bytes does not end at %#x", r.Text, r.Addr, r.Len, in.IP)
		}
	})
}
