package report

import (
	"bytes"
	"testing"

	"xw/pkg/insn"
	"xw/pkg/wire"
)

// step is one hit of a thread: registers rax, rcx, rsi, rdi.
type step struct {
	ip, slot, rcx, rsi, rdi uint64
}

func TestAccesses(t *testing.T) {
	const rep, after = 0x400, 0x402
	repMovsb := append(nops(16), 0xf3, 0xa4, 0x90, 0x90)                // rep movsb at rep
	store := append(nops(13), 0x88, 0x47, 0xff, 0x48, 0xff, 0xc7, 0x90) // mov [rdi-1],al before it, inc rdi at it
	copyOf := func(n uint64) []step {
		var out []step
		for i := range n {
			out = append(out, step{ip: rep, rcx: n - 1 - i, rsi: 0x501 + i, rdi: 0x1001 + i})
		}
		return out
	}
	inside := func(s []step) []step { // the copy goes on behind the watched bytes
		for i := range s {
			s[i].rcx += 5
		}
		return s
	}
	last := func(s []step) []step { s[len(s)-1].ip = after; return s }
	for _, test := range []struct {
		name   string
		steps  []step
		kernel bool
		code   []byte // at rep
		want   Num
	}{
		{name: "one store", steps: []step{{ip: 1}}, want: num(1)},
		{name: "one store in a loop", steps: []step{{ip: 1}, {ip: 1}, {ip: 1}}, want: num(3)},
		{name: "wide store", steps: []step{{ip: 1}, {ip: 1, slot: 1}}, want: num(1)},
		{name: "wide store in a loop", steps: []step{{ip: 1}, {ip: 1, slot: 1}, {ip: 1}, {ip: 1, slot: 1}}, want: num(2)},
		{name: "two stores to two slots", steps: []step{{ip: 1}, {ip: 2, slot: 1}}, want: num(2)},
		{name: "one store, moved", steps: []step{{ip: 1, rdi: 0}, {ip: 1, slot: 1, rdi: 8}}, want: num(2)},
		{name: "rep movs", steps: inside(copyOf(8)), code: repMovsb, want: num(1)},
		{name: "rep movs to its end", steps: last(copyOf(8)), code: repMovsb, want: num(1)},
		{name: "rep movs twice", steps: append(last(copyOf(8)), last(copyOf(8))...), code: repMovsb, want: num(2)},
		{name: "a loop that looks like it", steps: copyOf(8), code: store, want: num(8)},
		{name: "who knows", steps: copyOf(8), want: Num{}},
		{name: "copy by the kernel", steps: copyOf(8), kernel: true, want: num(1)},
		{name: "two copies by the kernel", steps: append(copyOf(8), copyOf(8)...), kernel: true, want: num(2)},
		{name: "put_user", steps: []step{{ip: 1}, {ip: 1}}, kernel: true, want: num(2)},
		{name: "kernel, two places", steps: []step{{ip: 1}, {ip: 9}}, kernel: true, want: Num{}},
	} {
		m := newModel(t, func(s *wire.Session) {
			s.Watches[0].Slots = []wire.Slot{{Addr: 0x1000, Len: 8}, {Addr: 0x1008, Len: 8}}
		})
		if test.code != nil {
			m.Add(&wire.Code{IP: rep, Start: rep - 16, Bin: test.code})
			m.Add(&wire.Code{IP: after, Start: rep - 16, Bin: test.code})
		}
		for i, s := range test.steps {
			x := hit(uint64(i), 7, s.ip, 1)
			x.Addr += 8 * s.slot
			x.Regs = registers(0, s.rcx, s.rsi, s.rdi)
			if test.kernel {
				x.Origin, x.UserIP, x.Syscall = 1, wire.Some(0x900), wire.Some(0)
			}
			m.Add(x)
			other := *x // another thread in between changes nothing
			other.TID, other.IP, other.Addr = 8, 0x900, 0x1000
			m.Add(&other)
		}
		w := finish(m, wire.Counts{Counted: 2 * uint64(len(test.steps))}).Watches[0]
		sum, known := uint64(0), true
		for _, s := range w.Sites {
			if s.IP != hex(0x900) {
				sum, known = sum+s.Accesses.V, known && s.Accesses.OK
			}
		}
		if known != test.want.OK || known && sum != test.want.V {
			t.Errorf("%s: %d accesses (known: %v), want %v", test.name, sum, known, test.want)
			for _, s := range w.Sites {
				t.Logf("%s %s: %s %s", s.IP, s.Accesses, s.Insn, s.InsnReason)
			}
		}
	}
}

// TestAccessesNeedRegisters: without registers, or with lost hits between those that belong together, it is unknown.
func TestAccessesNeedRegisters(t *testing.T) {
	m := newModel(t, nil)
	m.Add(hit(1, 7, 1, 1))
	if w := finish(m, wire.Counts{Counted: 1}).Watches[0]; w.Accesses.OK {
		t.Errorf("%v accesses without registers", w.Accesses)
	}
	m = newModel(t, func(s *wire.Session) {
		s.Watches[0].Slots = append(s.Watches[0].Slots, wire.Slot{Addr: 0x1008, Len: 8})
	})
	for i := range uint64(2) {
		s := hit(i, 7, 1, 1)
		s.Addr += 8 * i
		s.Regs = registers(0, 0, 0, 0)
		m.Add(s)
	}
	if w := finish(m, wire.Counts{Counted: 3, Lost: 1}).Watches[0]; w.Accesses.OK {
		t.Errorf("%v accesses although hits are lost", w.Accesses)
	}
	m = newModel(t, func(s *wire.Session) { s.Watches[0].Access = "x" })
	m.Add(hit(1, 7, 1, 1))
	if w := finish(m, wire.Counts{Counted: 1}).Watches[0]; w.Accesses != num(1) || w.Sites[0].Op != insn.Execute {
		t.Errorf("x watch: %v accesses, op %s", w.Accesses, w.Sites[0].Op)
	}
}

func nops(n int) []byte { return bytes.Repeat([]byte{0x90}, n) }
