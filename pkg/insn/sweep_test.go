package insn

import (
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"

	"xw/pkg/hwtest"
)

// disassembleLibrary gives the code of a C library, as objdump has it.
func disassembleLibrary(t *testing.T, bits string) []disassembled {
	t.Helper()
	if testing.Short() {
		t.Skip("disassembles a whole library")
	}
	hwtest.RequireTool(t, "objdump", "cc")
	path, err := exec.Command("cc", bits, "-print-file-name=libc.so.6").Output()
	if err != nil {
		t.Fatal(err)
	}
	objdump := exec.Command("objdump", "-d", "-w", "-M", "intel", strings.TrimSpace(string(path)))
	out, err := objdump.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := objdump.Start(); err != nil {
		t.Fatal(err)
	}
	var list []disassembled
	if err := readObjdump(out, func(d disassembled) { list = append(list, d) }); err != nil {
		t.Fatal(err)
	}
	if err := objdump.Wait(); err != nil {
		t.Skipf("no such library here: objdump %s: %v", path, err)
	}
	return list
}

// TestObjdump compares every instruction of the C library that has a memory operand with objdump's text, and the length
// of all others.
func TestObjdump(t *testing.T) {
	for _, mode := range []struct {
		flag string
		bits int
	}{{"-m64", 64}, {"-m32", 32}} {
		t.Run(mode.flag, func(t *testing.T) { checkObjdump(t, disassembleLibrary(t, mode.flag), mode.bits) })
	}
}

func checkObjdump(t *testing.T, list []disassembled, bits int) {
	compared, different := 0, 0
	for _, d := range list {
		name, _, _ := strings.Cut(d.text, " ")
		switch strings.TrimSpace(name) {
		case "nop", "cs", "data16", "rdpkru", "wrpkru": // padding, and what touches no memory
			continue
		}
		in, ok := decode(append(d.code, make([]byte, maxLen)...), d.addr, bits)
		if !ok || in.Len != len(d.code) {
			t.Errorf("%#x % x: %s is decoded with length %d", d.addr, d.code, d.text, in.Len)
			continue
		}
		if !strings.Contains(d.text, "[") && !strings.Contains(d.text, ":0x") || strings.Contains(d.text, "eiz") {
			continue
		}
		compared++
		want := normalText(d.text)
		if got := in.text(nil); got != want {
			if different++; different <= 20 {
				t.Errorf("%#x % x: %q, objdump has %q", d.addr, d.code, got, want)
			}
		}
	}
	if compared < 1000 {
		t.Errorf("only %d instructions were compared", compared)
	}
	t.Logf("%d instructions with memory operands, %d different", compared, different)
}

// TestBackward finds every store of the C library from the 64 bytes before its end and registers of random content: it
// may be left ambiguous now and then, but never be taken for another.
func TestBackward(t *testing.T) {
	list := disassembleLibrary(t, "-m64")
	random := rand.New(rand.NewPCG(1, 2))
	exact, ambiguous := 0, 0
	for i := range list {
		d := &list[i]
		code := codeBefore(list, i)
		var regs [16]uint64
		for j := range regs {
			regs[j] = random.Uint64() >> 17
		}
		addr, ok := storeAddress(d, &regs)
		if len(code) != lookBack || !ok {
			continue
		}
		end := d.addr + uint64(len(d.code))
		r := Find(&Input{IP: end, Bits: 64, Regs: &regs, Access: "w", Addr: addr, Len: 1, Code: code, CodeStart: end - lookBack})
		switch {
		case r.Status == Exact && r.Addr == d.addr:
			exact++
		case r.Status == Ambiguous:
			ambiguous++
		default:
			t.Errorf("%#x %s: %s %q (%s)", d.addr, d.text, r.Status, r.Text, r.Reason)
		}
	}
	if exact < 10000 || ambiguous > exact/1000 {
		t.Errorf("%d were found and %d were ambiguous", exact, ambiguous)
	}
	t.Logf("%d stores were found, %d were ambiguous", exact, ambiguous)
}

// codeBefore gives the bytes that end with instruction i, as many as are looked at.
func codeBefore(list []disassembled, i int) (code []byte) {
	start := list[i].addr + uint64(len(list[i].code))
	for ; i >= 0 && len(code) < lookBack; i-- {
		if list[i].addr+uint64(len(list[i].code)) != start {
			return nil
		}
		code = append(append([]byte(nil), list[i].code...), code...)
		start = list[i].addr
	}
	return code[max(0, len(code)-lookBack):]
}

// storeAddress gives the first byte that an instruction stores to, if that is known.
func storeAddress(d *disassembled, regs *[16]uint64) (uint64, bool) {
	in, ok := decode(d.code, d.addr, 64)
	if !ok || isTransfer(in.Op) {
		return 0, false
	}
	if in.repeated() {
		regs[regCX] = 0
	}
	for _, a := range in.accesses(&machine{regs: regs, bits: 64}) {
		if a.known && a.role&writes != 0 {
			first, _ := a.span(false, 0)
			return first, true
		}
	}
	return 0, false
}
