package insn

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"xw/pkg/hwtest"
	"xw/pkg/wire"
)

// TestLive executes every case under a watchpoint and compares what is told with the program's symbols, with objdump and
// with the memory.
func TestLive(t *testing.T) {
	hwtest.Require(t)
	executeLive(t, 64, stores, stacks, updates, loads, vectors, units, stringCases, transfers)
}

// TestLive32 does the same in a 32-bit program.
func TestLive32(t *testing.T) {
	hwtest.RequireC(t, "-m32", "-static")
	hwtest.Require(t)
	executeLive(t, 32, cases32)
}

func executeLive(t *testing.T, bits int, groups ...[]liveCase) {
	flags, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		t.Fatal(err)
	}
	var cases []liveCase
	for _, group := range groups {
		for _, c := range group {
			if c.needs != "" && !strings.Contains(string(flags), " "+c.needs+" ") {
				t.Logf("%s is left out: this CPU has no %s", c.insn, c.needs)
				continue
			}
			cases = append(cases, c.withDefaults())
		}
	}
	p := startLive(t, bits, cases)
	for i := range cases {
		t.Run(cases[i].insn, func(t *testing.T) { p.check(t, i, &cases[i]) })
	}
	t.Logf("%d instructions were executed", len(cases))
}

func (c liveCase) withDefaults() liveCase {
	if c.setup == "" {
		c.setup = toSpot
	}
	if c.access == "" {
		c.access = "rw"
	}
	if c.length == 0 {
		c.length = 8
	}
	if c.before == 0 {
		c.before = before
	}
	if c.hits == 0 {
		c.hits = 1
	}
	if c.status == "" {
		c.status = Exact
	}
	return c
}

func (p *liveTarget) check(t *testing.T, index int, c *liveCase) {
	in, hits := p.run(t, index, c, 1)
	if len(hits) != c.hits {
		t.Fatalf("%d hits, want %d", len(hits), c.hits)
	}
	for _, h := range hits {
		in.IP, in.Regs = h.ip, &h.regs
		r := Find(in)
		p.compare(t, index, c, &r)
		p.checkWithLess(t, *in, &r)
	}
}

const libraryProgram = `
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
char area[4096] __attribute__((aligned(4096)));
char other[4096];
#define spot (area + 1024)
int less(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
int main(void) {
	char line[32];
	long size = 1;
	printf("ready spot=%p\n", (void *)spot);
	fflush(stdout);
	memset(other, 'x', sizeof other - 1);
	while (fgets(line, sizeof line, stdin)) {
		size = atol(line);
		other[size] = 0;
		memset(spot - size / 2, 1, size);
		memcpy(spot - size / 2, other, size);
		memmove(spot - size / 2, spot - size / 2 + 1, size);
		strcpy(spot - size / 2, other);
		strncat(spot - size / 2, other, 5);
		snprintf(spot, 16, "%ld", size);
		qsort(spot - 16, 32, 4, less);
		other[size] = 'x';
		puts("done");
		fflush(stdout);
	}
	return 0;
}
`

// TestLibrary watches what functions of the C library write, whose code is read from memory and has no function starts.
func TestLibrary(t *testing.T) {
	hwtest.Require(t)
	p := hwtest.Start(t, hwtest.BuildC(t, libraryProgram, "-O1"))
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", p.PID))
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	spot := p.Uint("spot")
	texts := map[string]int{}
	for _, size := range []int{2, 3, 7, 8, 15, 16, 31, 33, 64, 100, 129, 300, 777, 1000} {
		w := openWatchpoint(t, p.PID, spot, 8, "w", false)
		p.Send(fmt.Sprint(size))
		p.Line()
		hits := w.hits(t)
		w.close()
		if len(hits) < 4 {
			t.Errorf("size %d: %d hits", size, len(hits))
		}
		for i := range hits {
			r := Find(&Input{IP: hits[i].ip, Bits: 64, Regs: &hits[i].regs, Access: "w", Addr: spot, Len: 8,
				ReadCode: codeReader(mem)})
			if r.Status != Exact || r.Op == Read || r.Op == Unknown {
				t.Errorf("size %d, hit at %#x: %s %s %q (%s)", size, hits[i].ip, r.Status, r.Op, r.Text, r.Reason)
			}
			texts[r.Text]++
		}
	}
	t.Logf("%d different instructions: %v", len(texts), texts)
}

// compare checks all that is told of a hit.
func (p *liveTarget) compare(t *testing.T, index int, c *liveCase, r *Result) {
	t.Helper()
	if r.Status != c.status || r.Op != c.op || (r.Reason == "") != (r.Status == Exact) {
		t.Fatalf("%s %s %q (%s), want %s %s", r.Status, r.Op, r.Text, r.Reason, c.status, c.op)
	}
	if r.Status != Exact {
		return
	}
	addr, end := p.symbols[fmt.Sprint("insn_", index)], p.symbols[fmt.Sprint("after_", index)]
	if r.Addr != addr || r.Addr+uint64(r.Len) != end {
		t.Errorf("it is %#x of %d bytes, want %#x to %#x", r.Addr, r.Len, addr, end)
	}
	if want := p.text[addr]; r.Text != want {
		t.Errorf("text is %q, objdump has %q", r.Text, want)
	}
	stored := c.stored
	switch c.storedAddress {
	case "after":
		stored = wire.Some(end)
	case "spot+8":
		stored = wire.Some(p.symbols["spot"] + 8)
	}
	if r.Stored != stored {
		t.Errorf("stored %s, want %s", optText(r.Stored), optText(stored))
	}
	if r.Loaded != c.loaded {
		t.Errorf("loaded %s, want %s", optText(r.Loaded), optText(c.loaded))
	}
	if c.hits == 1 && r.Operand.OK == c.adrift {
		t.Errorf("the operand's address %#x is known: %t, want %t", r.Operand.V, r.Operand.OK, !c.adrift)
	}
	if r.Stored.OK && r.Operand.OK {
		if got := p.word(t, r.Operand.V, int(r.Size)); got != r.Stored.V {
			t.Errorf("stored %s, the memory at %#x holds %#x", optText(r.Stored), r.Operand.V, got)
		}
	}
}

// checkWithLess checks that less to go by gives the same answer or none, but no other.
func (p *liveTarget) checkWithLess(t *testing.T, in Input, full *Result) {
	t.Helper()
	from := func(n uint64) {
		in.CodeStart = in.IP - n
		in.Code = p.read(t, in.CodeStart, int(n)+16)
	}
	in.FuncStart = 0
	p.checkAgrees(t, "without a function", &in, full)
	from(lookBack)
	in.ReadCode = nil
	p.checkAgrees(t, "with 64 bytes of code", &in, full)
	for _, n := range []uint64{16, 5, 0} {
		from(n)
		p.checkAgrees(t, fmt.Sprintf("with %d bytes of code", n), &in, full)
	}
	from(lookBack)
	in.Regs = nil
	p.checkAgrees(t, "without registers", &in, full)
}

func (p *liveTarget) checkAgrees(t *testing.T, what string, in *Input, full *Result) {
	t.Helper()
	r := Find(in)
	if r.Status == Exact && r.Text != full.Text {
		t.Errorf("%s it is %q, else %q", what, r.Text, full.Text)
	}
	if r.Op != Unknown && r.Op != full.Op {
		t.Errorf("%s the operation is %s (%s), else %s", what, r.Op, r.Reason, full.Op)
	}
	if full.Status == Exact && len(in.Code) != 0 && len(in.Code) >= lookBack && in.Regs != nil && r.Status != Exact {
		t.Logf("%s it is %s: %s", what, r.Status, r.Reason)
	}
}

func optText(v wire.Opt) string {
	if !v.OK {
		return "an unknown value"
	}
	return fmt.Sprintf("%#x", v.V)
}
