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

// TestWholeAccesses: what is counted of single hits, and what of the accesses that they are part of.
func TestWholeAccesses(t *testing.T) {
	const rep, after = 0x400, 0x402
	repMovsb := append(nops(16), 0xf3, 0xa4, 0x90, 0x90)
	store := append(nops(13), 0x88, 0x47, 0xff, 0x48, 0xff, 0xc7, 0x90)
	type result struct {
		silent, bytes, lastOf, before string
		lines                         int
	}
	copyOf := func(n int, values ...uint64) (out []step, left []uint64) { // the last iteration is reported behind
		for i := range uint64(n) {
			s := step{ip: rep, rcx: uint64(n) - 1 - i, rsi: 0x501 + i, rdi: 0x1001 + i}
			if s.rcx == 0 {
				s.ip = after
			}
			out = append(out, s)
		}
		return out, values
	}
	for _, test := range []struct {
		name   string
		kernel bool
		code   []byte
		copies [][]uint64 // what stands there after each iteration; 5 before the first
		want   result
	}{
		{"the kernel writes another value", true, nil, [][]uint64{{1, 2, 2, 2}}, result{"0", "4", "0x400", "0x5", 1}},
		{"the kernel writes the same value", true, nil, [][]uint64{{1, 2, 2, 5}}, result{"1", "4", "0x400", "0x5", 1}},
		{"two copies", true, nil, [][]uint64{{1, 2, 2, 5}, {5, 5, 5, 5}}, result{"2", "4", "0x400", "0x5", 1}},
		{"copies of two lengths", true, nil, [][]uint64{{1, 2, 2, 5}, {6, 7}}, result{"1", "?", "0x400", "0x5", 1}},
		{"rep movsb", false, repMovsb, [][]uint64{{1, 2, 2, 5}}, result{"1", "4", "0x400", "0x5", 1}},
		{"a loop of stores", false, store, [][]uint64{{1, 2, 2, 2}}, result{"2", "?", "?", "0x2", 2}},
	} {
		m := newModel(t, nil)
		if test.code != nil {
			m.Add(&wire.Code{IP: rep, Start: rep - 16, Bin: test.code})
			m.Add(&wire.Code{IP: after, Start: rep - 16, Bin: test.code})
		}
		m.Add(&wire.Check{Addr: 0x1000, Hits: wire.Some(0), Value: wire.Some(5)})
		for _, values := range test.copies {
			steps, left := copyOf(len(values), values...)
			for i, s := range steps {
				x := hit(m.watches[0].hits+1, 7, s.ip, left[i])
				x.Regs = registers(0, s.rcx, s.rsi, s.rdi)
				if test.kernel {
					x.Origin, x.UserIP, x.Syscall = 1, wire.Some(0x900), wire.Some(0)
				}
				m.Add(x)
			}
		}
		w := finish(m, wire.Counts{Counted: m.watches[0].hits}).Watches[0]
		var end Site
		for _, s := range w.Sites {
			if s.IP == hex(after) {
				end = s
			}
		}
		first := w.lines[0]
		got := result{w.Silent.String(), first.AccessBytes.String(), end.LastOf.String(), w.lines[len(w.lines)-1].before.String(), len(w.lines)}
		if got != test.want {
			t.Errorf("%s: %+v, want %+v", test.name, got, test.want)
		}
		if got.lines == 1 && (first.Hits != w.Hits || first.LastNS != w.LastNS || first.Op != insn.Write || first.Accesses != num(uint64(len(test.copies)))) {
			t.Errorf("%s: in one line %+v of %d hits", test.name, first, w.Hits)
		}
	}
}

// TestWideStoreIsSilentOnce: a store over two slots changes nothing if both stay as they were.
func TestWideStoreIsSilentOnce(t *testing.T) {
	m := newModel(t, func(s *wire.Session) {
		s.Watches[0].Slots = []wire.Slot{{Addr: 0x1000, Len: 8}, {Addr: 0x1008, Len: 8}}
	})
	for i, values := range [][2]uint64{{1, 2}, {1, 2}, {1, 3}, {1, 3}} {
		for slot, v := range values {
			s := hit(uint64(10*i+slot+1), 7, 1, v)
			s.Addr += 8 * uint64(slot)
			s.Regs = registers(uint64(i), 0, 0, 0)
			m.Add(s)
		}
	}
	w := finish(m, wire.Counts{Counted: 8}).Watches[0]
	if w.Silent != num(2) || w.Accesses != num(4) {
		t.Errorf("%v of %v stores silent, want 2 of 4", w.Silent, w.Accesses)
	}
}

// TestHitsMissingInACopy: a copy that is torn apart is not compared with what stood there before it.
func TestHitsMissingInACopy(t *testing.T) {
	m := newModel(t, nil)
	m.Add(&wire.Check{Addr: 0x1000, Hits: wire.Some(0), Value: wire.Some(5)})
	for i := range uint64(4) {
		s := hit(i+1, 7, 0x400, 5)
		s.Origin, s.Regs = 1, registers(0, 3-i, 0x501+i, 0x1001+i)
		m.Add(s)
		if i == 1 {
			m.Add(&wire.Lost{Time: 2, N: 1})
		}
	}
	s := finish(m, wire.Counts{Counted: 5, Lost: 1}).Watches[0].Sites[0]
	if s.Accesses.OK || s.Silent != num(1) {
		t.Errorf("%v accesses, %v silent", s.Accesses, s.Silent)
	}
}
