package insn

import (
	"fmt"
	"testing"
)

// foldStep is a hit for a Folder and what it should say of it.
type foldStep struct {
	ip     uint64
	slot   uint64
	kernel bool
	regs   map[int]uint64 // nil: none were sampled
	result Result
	want   string // begins, goes on or undecided
}

var (
	single   = Result{Status: Exact, Size: 8}
	repeat1  = Result{Status: Exact, Size: 1, Rep: true}
	repeat8  = Result{Status: Exact, Size: 8, Rep: true}
	nothing  = Result{Status: NotFound}
	foldings = []struct {
		name  string
		steps []foldStep
	}{
		{"one instruction again and again", []foldStep{
			{ip: 10, slot: 0x100, regs: map[int]uint64{regAX: 1}, result: single, want: "begins"},
			{ip: 10, slot: 0x100, regs: map[int]uint64{regAX: 1}, result: single, want: "begins"},
			{ip: 10, slot: 0x100, regs: map[int]uint64{regAX: 2}, result: single, want: "begins"},
			{ip: 20, slot: 0x100, regs: map[int]uint64{regAX: 2}, result: single, want: "begins"},
		}},
		{"a wide store over two watchpoints, twice", []foldStep{
			{ip: 10, slot: 0x100, regs: map[int]uint64{}, result: single, want: "begins"},
			{ip: 10, slot: 0x108, regs: map[int]uint64{}, result: single, want: "goes on"},
			{ip: 10, slot: 0x100, regs: map[int]uint64{}, result: single, want: "begins"},
			{ip: 10, slot: 0x108, regs: map[int]uint64{}, result: single, want: "goes on"},
		}},
		{"a store to one watchpoint and one to the other", []foldStep{
			{ip: 10, slot: 0x100, regs: map[int]uint64{regDI: 0x100}, result: single, want: "begins"},
			{ip: 10, slot: 0x108, regs: map[int]uint64{regDI: 0x108}, result: single, want: "begins"},
		}},
		{"a repeated store and its end, then another", []foldStep{
			{ip: 10, slot: 0x100, regs: map[int]uint64{regDI: 0x101, regCX: 3}, result: repeat1, want: "begins"},
			{ip: 10, slot: 0x100, regs: map[int]uint64{regDI: 0x102, regCX: 2}, result: repeat1, want: "goes on"},
			{ip: 10, slot: 0x100, regs: map[int]uint64{regDI: 0x103, regCX: 1}, result: repeat1, want: "goes on"},
			{ip: 12, slot: 0x100, regs: map[int]uint64{regDI: 0x104, regCX: 0}, result: repeat1, want: "goes on"},
			{ip: 10, slot: 0x100, regs: map[int]uint64{regDI: 0x101, regCX: 3}, result: repeat1, want: "begins"},
			{ip: 10, slot: 0x100, regs: map[int]uint64{regDI: 0x101, regCX: 3}, result: repeat1, want: "begins"},
		}},
		{"a repeated move of words over two watchpoints, downwards", []foldStep{
			{ip: 10, slot: 0x108, regs: map[int]uint64{regDI: 0x100, regSI: 0x900, regCX: 9}, result: repeat8, want: "begins"},
			{ip: 10, slot: 0x100, regs: map[int]uint64{regDI: 0xf8, regSI: 0x8f8, regCX: 8}, result: repeat8, want: "goes on"},
		}},
		{"iterations that the watch has not seen", []foldStep{
			{ip: 10, slot: 0x100, regs: map[int]uint64{regDI: 0x101, regCX: 30}, result: repeat1, want: "begins"},
			{ip: 10, slot: 0x100, regs: map[int]uint64{regDI: 0x105, regCX: 26}, result: repeat1, want: "goes on"},
			{ip: 10, slot: 0x100, regs: map[int]uint64{regDI: 0x106, regCX: 20}, result: repeat1, want: "begins"},
		}},
		{"steps of another size", []foldStep{
			{ip: 10, slot: 0x100, regs: map[int]uint64{regDI: 0x102, regCX: 30}, result: repeat1, want: "begins"},
			{ip: 10, slot: 0x100, regs: map[int]uint64{regDI: 0x104, regCX: 29}, result: repeat1, want: "begins"},
		}},
		{"a loop of single stores that counts down", []foldStep{
			{ip: 10, slot: 0x100, regs: map[int]uint64{regDI: 0x101, regCX: 30}, result: single, want: "begins"},
			{ip: 10, slot: 0x100, regs: map[int]uint64{regDI: 0x102, regCX: 29}, result: single, want: "begins"},
		}},
		{"the same by an unknown instruction", []foldStep{
			{ip: 10, slot: 0x100, regs: map[int]uint64{regDI: 0x101, regCX: 30}, result: nothing, want: "begins"},
			{ip: 10, slot: 0x100, regs: map[int]uint64{regDI: 0x102, regCX: 29}, result: nothing, want: "undecided"},
		}},
		{"another register has changed", []foldStep{
			{ip: 10, slot: 0x100, regs: map[int]uint64{regDI: 0x101, regCX: 30}, result: repeat1, want: "begins"},
			{ip: 10, slot: 0x100, regs: map[int]uint64{regDI: 0x102, regCX: 29, regBX: 1}, result: repeat1, want: "begins"},
		}},
		{"a copy by the kernel, twice", []foldStep{
			{ip: 1 << 63, slot: 0x100, kernel: true, regs: map[int]uint64{regDI: 0x101, regSI: 0x901, regCX: 2}, result: nothing, want: "begins"},
			{ip: 1 << 63, slot: 0x100, kernel: true, regs: map[int]uint64{regDI: 0x102, regSI: 0x902, regCX: 1}, result: nothing, want: "goes on"},
			{ip: 1<<63 + 2, slot: 0x100, kernel: true, regs: map[int]uint64{regDI: 0x103, regSI: 0x903}, result: nothing, want: "goes on"},
			{ip: 1 << 63, slot: 0x100, kernel: true, regs: map[int]uint64{regDI: 0x101, regSI: 0x901, regCX: 2}, result: nothing, want: "begins"},
			{ip: 1, slot: 0x100, regs: map[int]uint64{regDI: 0x102, regSI: 0x902, regCX: 1}, result: nothing, want: "begins"},
		}},
		{"a copy by the kernel made of several instructions", []foldStep{
			{ip: 1 << 63, slot: 0x100, kernel: true, regs: map[int]uint64{regDI: 0x100}, result: nothing, want: "begins"},
			{ip: 1<<63 + 8, slot: 0x108, kernel: true, regs: map[int]uint64{regDI: 0x100}, result: nothing, want: "undecided"},
			{ip: 1<<63 + 4096, slot: 0x100, kernel: true, regs: map[int]uint64{regDI: 0x100}, result: nothing, want: "begins"},
		}},
		{"no registers", []foldStep{
			{ip: 10, slot: 0x100, result: single, want: "begins"},
			{ip: 10, slot: 0x100, result: single, want: "begins"},
			{ip: 10, slot: 0x108, result: single, want: "undecided"},
			{ip: 10, slot: 0x108, result: repeat1, want: "undecided"},
			{ip: 10, slot: 0x108, result: nothing, want: "undecided"},
		}},
	}
)

func foldWord(begins, decided bool) string {
	switch {
	case !decided:
		return "undecided"
	case begins:
		return "begins"
	}
	return "goes on"
}

func TestFolder(t *testing.T) {
	for _, c := range foldings {
		t.Run(c.name, func(t *testing.T) {
			var f Folder
			for i, s := range c.steps {
				h := Hit{IP: s.ip, Slot: s.slot, Kernel: s.kernel}
				if s.regs != nil {
					h.Regs = registers(s.regs)
					for _, n := range []int{regCX, regSI, regDI} {
						h.Regs[n] = s.regs[n]
					}
				}
				if got := foldWord(f.Add(&h, &s.result)); got != s.want {
					t.Errorf("hit %d %s, want %s", i, got, s.want)
				}
			}
		})
	}
}

// TestFolderKeepsNothing feeds the same registers by a pointer whose content changes, as a reader of records does.
func TestFolderKeepsNothing(t *testing.T) {
	var f Folder
	regs := registers(map[int]uint64{regDI: 0x101, regCX: 9})
	h := Hit{IP: 10, Slot: 0x100, Regs: regs}
	f.Add(&h, &repeat1)
	regs[regDI]++
	regs[regCX]--
	if got := foldWord(f.Add(&h, &repeat1)); got != "goes on" {
		t.Errorf("the second hit %s", got)
	}
	if n := testing.AllocsPerRun(100, func() { f.Add(&h, &repeat1) }); n != 0 {
		t.Errorf("%v allocations a hit", n)
	}
}

// accessesOf counts the accesses that hits fold into.
func accessesOf(hits []Hit, results []Result) (n int, err error) {
	var f Folder
	for i := range hits {
		begins, decided := f.Add(&hits[i], &results[i])
		if !decided {
			return 0, fmt.Errorf("hit %d is undecided: %+v", i, hits[i])
		}
		if begins {
			n++
		}
	}
	return n, nil
}
