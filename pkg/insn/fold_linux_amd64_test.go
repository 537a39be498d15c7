package insn

import (
	"fmt"
	"testing"

	"xw/pkg/hwtest"
)

// foldCases are string instructions that give several hits and are one access.
var foldCases = []liveCase{
	{insn: "rep stosb", setup: toSpot + "; mov ecx, 8"},
	{insn: "rep stosb", setup: "mov edi, offset spot-3; mov ecx, 20"},
	{insn: "rep movsb", setup: "mov edi, offset spot-8; mov esi, offset area; mov ecx, 12"},
	{insn: "rep movsw", setup: "mov esi, offset spot; mov edi, offset area; mov ecx, 4"},
	{insn: "rep lodsb", setup: "mov esi, offset spot; mov ecx, 5"},
	{insn: "repne scasb", setup: toSpot + "; mov al, 0x66; mov ecx, 20"},
	{insn: "rep stosb", setup: "std; mov edi, offset spot+7; mov ecx, 8"},
	{insn: "mov [rdi], rax"},
}

// TestFoldLive executes each case three times under one watchpoint: however many the hits are, they are three accesses.
func TestFoldLive(t *testing.T) {
	hwtest.Require(t)
	cases := make([]liveCase, len(foldCases))
	for i := range foldCases {
		cases[i] = foldCases[i].withDefaults()
	}
	p := startLive(t, 64, cases)
	for i := range cases {
		t.Run(fmt.Sprint(i, " ", cases[i].insn), func(t *testing.T) {
			in, sampled := p.run(t, i, &cases[i], 3)
			var hits []Hit
			var results []Result
			for j := range sampled {
				in.IP, in.Regs = sampled[j].ip, &sampled[j].regs
				hits = append(hits, Hit{IP: in.IP, Slot: in.Addr, Regs: in.Regs})
				results = append(results, Find(in))
			}
			if n, err := accessesOf(hits, results); n != 3 || err != nil {
				t.Errorf("%d hits are %d accesses, %v", len(hits), n, err)
			}
		})
	}
}

// TestFoldWide watches both halves of what one instruction stores.
func TestFoldWide(t *testing.T) {
	hwtest.Require(t)
	c := liveCase{insn: "movaps [rdi], xmm0"}.withDefaults()
	p := startLive(t, 64, []liveCase{c})
	high := openWatchpoint(t, p.PID, p.symbols["spot"]+8, 8, "rw", false)
	defer high.close()
	in, lows := p.run(t, 0, &c, 3)
	highs := high.hits(t)
	if len(lows) != 3 || len(highs) != 3 {
		t.Fatalf("%d and %d hits", len(lows), len(highs))
	}
	var hits []Hit
	var results []Result
	for i := range lows {
		for slot, h := range map[uint64]*watchedHit{in.Addr: &lows[i], in.Addr + 8: &highs[i]} {
			in := *in
			in.IP, in.Addr, in.Regs = h.ip, slot, &h.regs
			hits = append(hits, Hit{IP: h.ip, Slot: slot, Regs: &h.regs})
			results = append(results, Find(&in))
		}
	}
	if n, err := accessesOf(hits, results); n != 3 || err != nil {
		t.Errorf("%d hits are %d accesses, %v", len(hits), n, err)
	}
}

const readerProgram = `
#include <stdio.h>
#include <unistd.h>
char spot[8] __attribute__((aligned(8)));
int main(void) {
	printf("ready spot=%p\n", (void *)spot);
	fflush(stdout);
	for (;;) {
		if (read(0, spot, 8) != 8)
			return 1;
		puts("done");
		fflush(stdout);
	}
}
`

// TestFoldKernel lets the kernel copy eight bytes into the watched ones, three times.
func TestFoldKernel(t *testing.T) {
	hwtest.Require(t)
	hwtest.RequireRoot(t)
	p := hwtest.Start(t, hwtest.BuildC(t, readerProgram))
	spot := p.Uint("spot")
	w := openWatchpoint(t, p.PID, spot, 8, "w", true)
	for range 3 {
		p.Send("1234567")
		p.Line()
	}
	var hits []Hit
	var results []Result
	sampled := w.hits(t)
	w.close()
	for i := range sampled {
		h := Hit{IP: sampled[i].ip, Kernel: sampled[i].kernel, Slot: spot, Regs: &sampled[i].regs}
		if !h.Kernel {
			t.Errorf("hit %d at %#x was made in user mode", i, h.IP)
		}
		hits = append(hits, h)
		results = append(results, Find(&Input{IP: h.IP, Kernel: true, Regs: h.Regs, Access: "w", Addr: spot, Len: 8}))
	}
	if n, err := accessesOf(hits, results); n != 3 || err != nil {
		t.Errorf("%d hits are %d accesses, %v", len(hits), n, err)
	}
}
