//go:build amd64

package watch

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cilium/ebpf"

	"xw/pkg/hwtest"
	"xw/pkg/proc"
)

// TestPrograms has the kernel's verifier look at each program that can be: a register too many in one of them, or a read that
// cannot be proven to be inside its record, would only be seen by who asks for that.
func TestPrograms(t *testing.T) {
	hwtest.Require(t)
	hwtest.RequireRoot(t)
	offsets, err := kernelOffsets()
	if err != nil {
		t.Fatal(err)
	}
	child := &Child{Offset: -8, Len: 4, Access: "w"}
	slots := []Slot{
		{Len: 8, Access: "w"}, {Len: 1, Access: "w"}, {Len: 4, Access: "rw"}, {Access: "x"},
		{Len: 8, Access: "w", Wake: true, Child: child}, {Len: 8, Access: "rw", Wake: true, Child: child},
	}
	maps := []*directMap{nil, {base: 1 << 47, levels: 4}, {base: 1 << 56, levels: 5}}
	for i := range 12 {
		regs, level, chain := i&1 != 0, uint32(i&2), []int{0, 127, 2048}[i/4]
		for _, readsHit := range []bool{false, true} {
			for _, m := range maps {
				if m != nil && !readsHit {
					continue
				}
				c := programConfig{
					memory: memory{mm: 1 << 63, pgd: 1 << 62}, bits: 32 << (i & 1), namespace: namespace{addr: 1 << 61, level: level}, offsets: offsets,
					readsHit: readsHit, regs: regs, chain: chain, directMap: m, cpus: []int{0}, ringSize: pageSize,
				}
				for _, s := range slots {
					if s.Access != "w" && !readsHit && s.Access != "x" {
						continue
					}
					t.Run(fmt.Sprintf("%+v regs %v chain %d namespace %d reads %v map %v", s, regs, chain, level, readsHit, m != nil), func(t *testing.T) {
						p, err := newPrograms(c)
						if err != nil {
							t.Fatal(err)
						}
						defer p.close()
						for range MaxSlots {
							if err := p.load(s); err != nil {
								var v *ebpf.VerifierError
								if errors.As(err, &v) {
									t.Fatalf("%+v", v)
								}
								t.Fatal(err)
							}
						}
					})
				}
			}
		}
	}
}

// TestAims has the programs know where slots are whose reading is a hit, before and after one is moved, and of no others.
func TestAims(t *testing.T) {
	hwtest.Require(t)
	hwtest.RequireRoot(t)
	target := hwtest.Start(t, hwtest.BuildC(t, "#include <stdio.h>\nlong words[4]; int main(void) { printf(\"ready words=%p\\n\", (void *)words); fflush(stdout); return getchar(); }"))
	p, err := proc.Open(target.PID)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	at := target.Uint("words")
	s, err := Open(p, Config{Scope: "cpu", Values: "bpf", Kernel: "auto", Slots: []Slot{
		{Addr: at, Len: 8, Access: "w"}, {Watch: 1, Addr: at + 8, Len: 8, Access: "rw"}, {Watch: 2, Len: 8, Access: "rw"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	want := func(when string, want aims) {
		t.Helper()
		var got aims
		if err := s.progs.aims.Lookup(uint32(0), &got); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%s: %#x, want %#x", when, got, want)
		}
	}
	want("at first", aims{2: at + 8, 3: at + 8})
	move := func(slot int, to uint64) error {
		_, _, err := s.Move(slot, to)
		return err
	}
	if err := errors.Join(move(2, at+16), move(0, at+24)); err != nil {
		t.Fatal(err)
	}
	want("moved", aims{2: at + 8, 3: at + 8, 4: at + 16, 5: at + 16})
	if move(2, at+17) == nil {
		t.Error("moved to an address that is not aligned")
	}
	want("refused", aims{2: at + 8, 3: at + 8, 4: at + 16, 5: at + 16})
	if err := move(2, 0); err != nil {
		t.Fatal(err)
	}
	want("unbound", aims{2: at + 8, 3: at + 8})
}
