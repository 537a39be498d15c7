package insn

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"xw/pkg/hwtest"
	"xw/pkg/wire"
)

const liveMain = `
#include <stdio.h>
#include <stdlib.h>
extern void (*cases[])(void);
int main(void) {
	char line[32];
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		cases[atoi(line)]();
		puts("done");
		fflush(stdout);
	}
	return 0;
}
`

// sentinel is what the register with an instruction set's number holds when a case begins.
func sentinel(number int) uint64 {
	return 0x0101010101010101*uint64(0x10+number) + 0x0706050403020100
}

// liveRegisters are the names of the registers that get sentinels, by number.
var liveRegisters = map[int][]string{
	64: {"rax", "rcx", "rdx", "rbx", "", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"},
	32: {"eax", "ecx", "edx", "ebx", "", "ebp", "esi", "edi"},
}

// liveProgram is a program that executes the cases on request: each is a function that sets the registers, runs the
// setup and the instruction, and gets its stack back from memory.
func liveProgram(bits int, cases []liveCase) string {
	var b strings.Builder
	line := func(format string, args ...any) {
		fmt.Fprintf(&b, "%q\n", fmt.Sprintf(format, args...)+"\n")
	}
	b.WriteString(liveMain + "asm(\n")
	line(".intel_syntax noprefix; .bss; .balign 4096; .globl area, spot, saved")
	line("area: .skip 1024; spot: .skip 31744; saved: .skip 8; .text")
	entry, exit, pointer := "push rbx; push rbp; push r12; push r13; push r14; push r15; mov saved[rip], rsp",
		"mov rsp, saved[rip]; pop r15; pop r14; pop r13; pop r12; pop rbp; pop rbx", ".quad"
	if bits == 32 {
		entry, exit, pointer = "pusha; mov saved, esp", "mov esp, saved; popa", ".long"
	}
	for i, c := range cases {
		landing := fmt.Sprint("land_", i)
		line(".balign 16; .globl case_%d, insn_%d, after_%d, %s; .type case_%d, @function", i, i, i, landing, i)
		line("case_%d: %s", i, entry)
		for n, name := range liveRegisters[bits] {
			if name != "" {
				line("mov %s, %#x", name, truncate(sentinel(n), bits/8))
			}
		}
		line("%s", strings.ReplaceAll(c.setup, "LANDING", landing))
		line("insn_%d: %s", i, strings.ReplaceAll(c.insn, "LANDING", landing))
		line("after_%d:", i)
		line("%s", strings.ReplaceAll(c.after, "LANDING", landing))
		line("cld; %s; ret", exit)
	}
	line(".data; .globl cases; cases:")
	for i := range cases {
		line("%s case_%d", pointer, i)
	}
	line(".text; .att_syntax prefix")
	b.WriteString(");\n")
	return b.String()
}

// liveTarget is the running program.
type liveTarget struct {
	*hwtest.Target
	bits    int
	mem     *os.File
	symbols map[string]uint64
	text    map[uint64]string // what objdump makes of the instruction at an address
}

func startLive(t *testing.T, bits int, cases []liveCase) *liveTarget {
	t.Helper()
	hwtest.RequireTool(t, "objdump")
	program := hwtest.BuildC(t, liveProgram(bits, cases), fmt.Sprint("-m", bits), "-static", "-no-pie")
	p := &liveTarget{Target: hwtest.Start(t, program), bits: bits, symbols: map[string]uint64{}, text: map[uint64]string{}}
	p.readSymbols(t, program)
	p.readText(t, program)
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", p.PID), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mem.Close() })
	p.mem = mem
	return p
}

func (p *liveTarget) readSymbols(t *testing.T, program string) {
	t.Helper()
	file, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	symbols, err := file.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		p.symbols[s.Name] = s.Value
	}
}

func (p *liveTarget) readText(t *testing.T, program string) {
	t.Helper()
	objdump := exec.Command("objdump", "-d", "-w", "-M", "intel", program)
	out, err := objdump.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := objdump.Start(); err != nil {
		t.Fatal(err)
	}
	if err := readObjdump(out, func(d disassembled) { p.text[d.addr] = normalText(d.text) }); err != nil {
		t.Fatal(err)
	}
	if err := objdump.Wait(); err != nil {
		t.Fatal(err)
	}
}

// run executes a case some times and gives its hits, and the input for Find but for what is in them.
func (p *liveTarget) run(t *testing.T, index int, c *liveCase, times int) (*Input, []watchedHit) {
	t.Helper()
	spot := p.symbols["spot"]
	content := c.before
	if c.toLanding {
		content = p.symbols[fmt.Sprint("land_", index)]
	}
	if _, err := p.mem.WriteAt(binary.LittleEndian.AppendUint64(nil, content), int64(spot)); err != nil {
		t.Fatal(err)
	}
	addr := spot + uint64(c.offset)
	w := openWatchpoint(t, p.PID, addr, c.length, c.access, false)
	defer w.close()
	for range times {
		p.Send(fmt.Sprint(index))
		p.Line()
	}
	in := &Input{Bits: p.bits, Access: c.access, Addr: addr, Len: c.length, Value: wire.Some(p.word(t, addr, int(c.length))),
		FuncStart: p.symbols[fmt.Sprint("case_", index)]}
	in.ReadCode = codeReader(p.mem)
	in.Stack = func(addr uint64) (uint64, bool) {
		var b [8]byte
		_, err := p.mem.ReadAt(b[:p.bits/8], int64(addr))
		return binary.LittleEndian.Uint64(b[:]), err == nil
	}
	return in, w.hits(t)
}

// codeReader reads the code of a process from its memory.
func codeReader(mem *os.File) func(addr uint64, b []byte) int {
	return func(addr uint64, b []byte) int {
		n, err := mem.ReadAt(b, int64(addr))
		if err != nil {
			return 0
		}
		return n
	}
}

func (p *liveTarget) read(t *testing.T, addr uint64, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	if _, err := p.mem.ReadAt(b, int64(addr)); err != nil {
		t.Fatal(err)
	}
	return b
}

// word reads up to eight bytes.
func (p *liveTarget) word(t *testing.T, addr uint64, n int) uint64 {
	t.Helper()
	var b [8]byte
	copy(b[:], p.read(t, addr, n))
	return binary.LittleEndian.Uint64(b[:])
}
