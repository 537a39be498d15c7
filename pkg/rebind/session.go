package rebind

import (
	"fmt"
	"slices"

	"xw/pkg/wire"
)

// chainsOf builds the chains that a session's watches form.
func chainsOf(s *wire.Session) ([]*chain, error) {
	var chains []*chain
	var seen []uint64
	for i := range s.Watches {
		w := &s.Watches[i]
		if !w.Chain.OK || slices.Contains(seen, w.Chain.V) {
			continue
		}
		seen = append(seen, w.Chain.V)
		c, err := chainOf(s, w.Chain.V)
		if err != nil {
			return nil, fmt.Errorf("chain %d of the header: %w", w.Chain.V, err)
		}
		chains = append(chains, c)
	}
	return chains, nil
}

// chainOf builds one chain by going from each level to the one whose parent it is.
func chainOf(s *wire.Session, id uint64) (*chain, error) {
	c := &chain{bits: s.Target.Bits}
	if c.bits != 32 && c.bits != 64 {
		return nil, fmt.Errorf("pointers of %d bits", s.Target.Bits)
	}
	members := 0
	for i := range s.Watches {
		if s.Watches[i].Chain == wire.Some(id) {
			members++
		}
	}
	parent := wire.Opt{}
	for len(c.levels) < members {
		i, err := childOf(s, id, parent)
		if err != nil {
			return nil, err
		}
		w := &s.Watches[i]
		if w.Len == 0 || w.Len > 8 || w.Len&(w.Len-1) != 0 {
			return nil, fmt.Errorf("watch %d: %d bytes do not fit one slot", i, w.Len)
		}
		c.levels = append(c.levels, level{watch: uint32(i), name: w.Name, length: w.Len, offset: w.Offset, addr: w.Addr,
			gen: 1, issued: 1})
		parent = wire.Some(uint64(i))
	}
	for j := range c.levels {
		l := &c.levels[j]
		if isLeaf := j == members-1; isLeaf != (s.Watches[l.watch].Role == "leaf") {
			return nil, fmt.Errorf("watch %d: level %d of %d has the role %q", l.watch, j+1, members, s.Watches[l.watch].Role)
		}
	}
	if members < 2 {
		return nil, fmt.Errorf("watch %d: a leaf without a slot above it", c.levels[0].watch)
	}
	return c, nil
}

// childOf returns the one watch of the chain with that parent.
func childOf(s *wire.Session, id uint64, parent wire.Opt) (int, error) {
	found := -1
	for i := range s.Watches {
		w := &s.Watches[i]
		if w.Chain != wire.Some(id) || w.Parent != parent {
			continue
		}
		if found >= 0 {
			return 0, fmt.Errorf("watches %d and %d have the same parent", found, i)
		}
		found = i
	}
	if found < 0 && parent.OK {
		return 0, fmt.Errorf("no watch has the parent %d", parent.V)
	}
	if found < 0 {
		return 0, fmt.Errorf("no watch is without a parent")
	}
	return found, nil
}
