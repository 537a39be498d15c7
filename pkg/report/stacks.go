package report

import (
	"cmp"
	"slices"

	"xw/pkg/wire"
)

// maxStacks is how many distinct call stacks a watch keeps: at a few hundred bytes each some tens of MB.
const maxStacks = 100000

// contextMarks is the first of the values in a call chain that are no addresses but say whose follow
// (PERF_CONTEXT_MAX in linux/perf_event.h).
const contextMarks = ^uint64(4095) + 1

// stack counts the hits that came through the same callers.
type stack struct {
	chain []uint64
	hits  uint64
	next  *stack // another one with the same hash
}

// stack counts the call stack of s.
func (w *watch) stack(s *wire.Sample, st *site) {
	h := hashChain(s.Callchain)
	for e := st.stacks[h]; e != nil; e = e.next {
		if slices.Equal(e.chain, s.Callchain) {
			e.hits++
			return
		}
	}
	if w.stacks >= maxStacks {
		st.other++
		return
	}
	w.stacks++
	if st.stacks == nil {
		st.stacks = map[uint64]*stack{}
	}
	st.stacks[h] = &stack{chain: slices.Clone(s.Callchain), hits: 1, next: st.stacks[h]}
}

// addStacks adds the call stacks of another site, without the place of its hits.
func (st *site) addStacks(other *site) {
	for _, first := range other.stacks {
		for e := first; e != nil; e = e.next {
			if st.stacks == nil {
				st.stacks = map[uint64]*stack{}
			}
			chain := callers(e.chain, other.key)
			h := hashChain(chain)
			st.stacks[h] = &stack{chain: chain, hits: e.hits, next: st.stacks[h]}
		}
	}
}

// hashChain is FNV-1a over words with a final mix.
func hashChain(chain []uint64) uint64 {
	h := uint64(14695981039346656037)
	for _, a := range chain {
		h = (h ^ a) * 1099511628211
		h ^= h >> 29
	}
	return h
}

// callers returns the addresses of a call chain above the place of the hit.
func callers(chain []uint64, key siteKey) []uint64 {
	out := make([]uint64, 0, len(chain))
	for _, a := range chain {
		if a < contextMarks {
			out = append(out, a)
		}
	}
	for len(out) > 0 && (out[0] == key.ip || key.userIP.OK && out[0] == key.userIP.V) {
		out = out[1:]
	}
	return out
}

// stackList lists the call stacks of a site, most hits first; nil if none were taken.
func (m *Model) stackList(st *site) []Stack {
	if st.stacks == nil && st.other == 0 {
		return nil
	}
	byCallers := map[uint64]int{}
	list := []Stack{}
	for _, first := range st.stacks {
		for e := first; e != nil; e = e.next {
			addrs := callers(e.chain, st.key)
			h := hashChain(addrs)
			if i, ok := byCallers[h]; ok {
				list[i].Hits += e.hits
				continue
			}
			byCallers[h] = len(list)
			list = append(list, Stack{Hits: e.hits, Frames: m.frames(addrs, st.last)})
		}
	}
	slices.SortFunc(list, func(a, b Stack) int {
		return cmp.Or(cmp.Compare(b.Hits, a.Hits), slices.CompareFunc(a.Frames, b.Frames, func(a, b Caller) int {
			return cmp.Compare(a.IP.V, b.IP.V)
		}))
	})
	if st.other > 0 {
		list = append(list, Stack{Hits: st.other, Frames: []Caller{}, Other: true})
	}
	return list
}

// frames names return addresses: the call stands before them.
func (m *Model) frames(addrs []uint64, time uint64) []Caller {
	out := make([]Caller, 0, len(addrs))
	for _, a := range addrs {
		out = append(out, Caller{IP: hex(a), Place: m.returnPlace(a, time)})
	}
	return out
}
