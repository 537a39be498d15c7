package symbol

import (
	"bufio"
	"strconv"
	"strings"
	"testing"
)

// Every address inside a function that nm -S knows must be found in a function that begins at the same place.
func TestFuncAtAgainstNM(t *testing.T) {
	path := compile(t, "p.cc", cxxProgram, "g++", "-O2", "-static")
	f := open(t, path)
	sc := bufio.NewScanner(strings.NewReader(run(t, "", "nm", "-S", "--defined-only", path)))
	checked := 0
	for sc.Scan() {
		fields := strings.Fields(sc.Text())
		if len(fields) != 4 || !strings.ContainsAny(fields[2], "tTwW") || fields[3] == "_.stapsdt.base" {
			continue
		}
		addr, _ := strconv.ParseUint(fields[0], 16, 64)
		size, _ := strconv.ParseUint(fields[1], 16, 64)
		for _, at := range []uint64{addr, addr + size/2, addr + size - 1} {
			got, ok := f.FuncAt(at)
			if !ok || got.Addr < addr || at-got.Addr >= max(got.Size, size) {
				t.Errorf("%#x, in %s of %d bytes at %#x: got %+v, %v", at, fields[3], size, addr, got, ok)
			}
		}
		checked++
	}
	if checked < 500 {
		t.Fatalf("only %d functions", checked)
	}
}

const asmProgram = `
	.text
	.globl sized, unsized, tail
	.type sized, @function
sized:	.skip 32
	.size sized, 32
	.skip 16
unsized: .skip 32
	.type inner, @function
outer:	.skip 64
	.size outer, 64
	.type outer, @function
	.globl alias
	.type alias, @function
	.set alias, outer
	.size alias, 64
tail:	.skip 16
	.section .other, "ax"
	.skip 64
`

// Labels without a size reach to the next label, not over code of which nothing is known.
func TestFuncAtWithoutSizes(t *testing.T) {
	path := compile(t, "p.s", asmProgram, "cc", "-nostdlib", "-static", "-Wl,-Ttext=0x401000,--section-start=.other=0x402000,-e,sized")
	f := open(t, path)
	for addr, want := range map[uint64]string{
		0x401000: "sized", 0x40101f: "sized", 0x401020: "", 0x40102f: "", 0x401030: "unsized", 0x40104f: "unsized",
		0x401050: "alias", 0x40108f: "alias", 0x401090: "tail", 0x40109f: "tail", 0x4010a0: "", 0x402010: "", 0x400fff: "",
	} {
		if got, ok := f.FuncAt(addr); got.Name != want || ok != (want != "") {
			t.Errorf("%#x: got %q, %v; expected %q", addr, got.Name, ok, want)
		}
	}
}
