package report

import (
	"cmp"
	"slices"
)

const (
	// maxValues is how many distinct values a watch tells apart.
	maxValues = 4096
	// listedValues is how many of them a report lists.
	listedValues = 64
)

// values counts the distinct values of a watch.
type values struct {
	hits map[slotValue]uint64
	more bool // there were others beyond maxValues
}

type slotValue struct {
	value uint64
	slot  uint32
}

func (v *values) add(slot uint32, value uint64) {
	if v.more {
		return // nothing more is told of them, and to look among so many takes its time
	}
	key := slotValue{value, slot}
	if n, ok := v.hits[key]; ok {
		v.hits[key] = n + 1
		return
	}
	switch {
	case len(v.hits) >= maxValues:
		v.more = true
		return
	case v.hits == nil:
		v.hits = map[slotValue]uint64{}
	}
	v.hits[key] = 1
}

// frequent lists the most frequent values. Where there are too many to tell apart, those seen once are no news: the
// counts of values that came late are missing, so only a complete list is given.
func (v *values) frequent() []ValueCount {
	list := []ValueCount{}
	if v.more {
		return list
	}
	for key, n := range v.hits {
		list = append(list, ValueCount{Slot: uint64(key.slot), Value: hex(key.value), Hits: n})
	}
	slices.SortFunc(list, func(a, b ValueCount) int {
		return cmp.Or(cmp.Compare(b.Hits, a.Hits), cmp.Compare(a.Slot, b.Slot), cmp.Compare(a.Value.V, b.Value.V))
	})
	return list[:min(len(list), listedValues)]
}
