//go:build amd64

package watch

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cilium/ebpf"

	"xw/pkg/hwtest"
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
