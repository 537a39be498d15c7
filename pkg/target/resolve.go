package target

import (
	"fmt"

	"xw/pkg/proc"
	"xw/pkg/wire"
)

// Options change what Resolve accepts.
type Options struct {
	// AllowRead accepts the access r, which needs somebody to decode the instructions.
	AllowRead bool
	// Program leaves the libraries out when a symbol is named without its module. A program that is about to start has
	// only some of them yet, the dynamic loader first, and one that comes later may have the symbol that is meant.
	Program bool
}

// Plan is what has to be armed.
type Plan struct {
	// Watches in the order of the specs, a chain's levels one after the other from the top. Only the first level of a
	// chain has an address; the slot of every other one has the right length and the address 0. The slot of an x watch
	// has length 1.
	Watches []wire.Watch
	// Notes are what a reader must know about the places.
	Notes []string
}

// Resolve finds the places in the process, as it is now, and covers them with slots: all of them, or none with the
// reason. An error that matches ErrNotFound can go away when the process loads more files.
func Resolve(p *proc.Process, specs []Spec, opts Options) (*Plan, error) {
	for _, spec := range specs {
		if spec.Access == Read && !opts.AllowRead {
			return nil, &readRefused{spec.Name}
		}
	}
	s, err := openSpace(p)
	if err != nil {
		return nil, err
	}
	defer s.close()
	r := &resolver{space: s, program: opts.Program}
	spots := make([]spot, len(specs))
	demands := make([]demand, len(specs))
	for i, spec := range specs {
		if spots[i], err = r.resolve(spec); err != nil {
			return nil, err
		}
		demands[i] = spots[i].demand(spec)
	}
	if err := checkDemand(demands); err != nil {
		return nil, err
	}
	plan := &Plan{Notes: r.notes}
	chains := uint64(0)
	for i, spec := range specs {
		if len(spec.Hops) == 0 {
			plan.addPlain(spec, spots[i])
			continue
		}
		plan.addChain(spec, spots[i], chains, uint64(p.Bits()/8))
		chains++
	}
	return plan, nil
}

// readRefused is the answer to the access r where nobody decodes instructions.
type readRefused struct{ watch string }

func (e *readRefused) Error() string {
	return fmt.Sprintf("watch %q: access r: x86 has no read-only watchpoint, and telling reads from writes needs the "+
		"instruction to be decoded, which is not done here", e.watch)
}

func (e *readRefused) Usage() bool { return true }

func (e *readRefused) Hint() string { return "rw watches reads and writes" }

// spot is a place that was found.
type spot struct {
	addr  uint64
	len   uint64 // bytes to watch there
	place string // for example prog!counter+0x8
}

func (s spot) demand(spec Spec) demand {
	if n := len(spec.Hops); n > 0 {
		return demand{spec.Name, uint64(n + 1), fmt.Sprintf("%d levels", n+1)}
	}
	return demand{spec.Name, slotsFor(s.addr, s.len), fmt.Sprintf("%d bytes at 0x%x", s.len, s.addr)}
}

func (plan *Plan) addPlain(spec Spec, s spot) {
	plan.Watches = append(plan.Watches, wire.Watch{
		ID: uint64(len(plan.Watches)), Name: spec.Name, Place: s.place, Addr: wire.Some(s.addr), Len: s.len,
		Access: spec.Access, Role: "plain", Slots: split(s.addr, s.len),
	})
}

// addChain adds one watch per level: headers, the pointer to the leaf, and the leaf.
func (plan *Plan) addChain(spec Spec, s spot, chain, pointer uint64) {
	place := s.place
	for level := range len(spec.Hops) + 1 {
		w := wire.Watch{
			ID: uint64(len(plan.Watches)), Name: spec.Name, Len: pointer, Access: Write, Role: "header", Chain: wire.Some(chain),
		}
		if level == 0 {
			w.Addr = wire.Some(s.addr)
		} else {
			w.Parent, w.Offset = wire.Some(w.ID-1), spec.Hops[level-1]
			place += "->" + formatOffset(uint64(w.Offset), "")
		}
		switch level {
		case len(spec.Hops):
			w.Role, w.Access = "leaf", spec.Access
			switch {
			case spec.Access == Execute:
				w.Len = 1
			case spec.Len != 0:
				w.Len = spec.Len
			}
		case len(spec.Hops) - 1:
			w.Role = "pointer"
		}
		w.Place, w.Slots = place, []wire.Slot{{Addr: w.Addr.V, Len: w.Len}}
		plan.Watches = append(plan.Watches, w)
	}
}

// formatOffset writes an offset modulo 2^64 in hex with its sign; plus is the sign of positive ones.
func formatOffset(offset uint64, plus string) string {
	if int64(offset) < 0 {
		return fmt.Sprintf("-0x%x", -offset)
	}
	return fmt.Sprintf("%s0x%x", plus, offset)
}
