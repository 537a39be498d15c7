package symbol

import (
	"bytes"
	"slices"
	"sort"
	"strings"

	"xw/pkg/wire"
)

// mapping is one mapping of a process, from the time it was made.
type mapping struct {
	pid        uint32
	start, end uint64
	offset     uint64 // bytes into the file
	time       uint64 // ns of CLOCK_MONOTONIC; 0 for those that were there at the start
	prot       uint32
	path       string // as recorded, without the " (deleted)" mark
	deleted    bool   // the record had that mark
	id         []byte // build id of the file as recorded, nil if unknown
}

func (m *mapping) covers(addr uint64) bool { return addr >= m.start && addr < m.end }

func (m *mapping) same(o *mapping) bool {
	return m.start == o.start && m.end == o.end && m.offset == o.offset && m.path == o.path && bytes.Equal(m.id, o.id) &&
		m.prot == o.prot
}

// fileBacked reports whether the mapping is of a file with a name; the kernel's own and anonymous ones are not.
func (m *mapping) fileBacked() bool {
	return strings.HasPrefix(m.path, "/") && !strings.HasPrefix(m.path, "//anon") && !strings.HasPrefix(m.path, "/memfd:") &&
		!strings.HasPrefix(m.path, "/dev/zero") && !strings.HasPrefix(m.path, "/SYSV")
}

// Mappings are found through buckets of address space; one that spans many of them is kept apart.
const (
	bucketShift = 26 // 64 MiB: a program with its libraries fills a few
	wideBuckets = 8
)

// mapTable holds the mappings of one process; later ones shadow earlier ones.
type mapTable struct {
	buckets map[uint64][]*mapping // each by time
	wide    []*mapping            // by time
	execs   []uint64              // times when the program was replaced, rising
}

func (t *mapTable) add(m *mapping) {
	if old := t.find(m.start, m.time); old != nil && old.same(m) && old == t.find(m.end-1, m.time) {
		return
	}
	first, last := m.start>>bucketShift, (m.end-1)>>bucketShift
	if last-first >= wideBuckets {
		t.wide = insert(t.wide, m)
		return
	}
	if t.buckets == nil {
		t.buckets = map[uint64][]*mapping{}
	}
	for b := first; b <= last; b++ {
		t.buckets[b] = insert(t.buckets[b], m)
	}
}

// insert keeps a list by time; records come almost in order.
func insert(list []*mapping, m *mapping) []*mapping {
	i := len(list)
	for i > 0 && list[i-1].time > m.time {
		i--
	}
	return slices.Insert(list, i, m)
}

// find returns the mapping that held addr at a time, nil if none is known.
func (t *mapTable) find(addr, time uint64) *mapping {
	since := uint64(0)
	if n := sort.Search(len(t.execs), func(i int) bool { return t.execs[i] > time }); n > 0 {
		since = t.execs[n-1]
	}
	a, b := newest(t.buckets[addr>>bucketShift], addr, time), newest(t.wide, addr, time)
	if a == nil || b != nil && b.time > a.time {
		a = b
	}
	if a != nil && a.time < since {
		return nil
	}
	return a
}

func newest(list []*mapping, addr, time uint64) *mapping {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].time <= time && list[i].covers(addr) {
			return list[i]
		}
	}
	return nil
}

// maxMappings bounds the mappings kept, some 150 bytes each. What is mapped where after that is not known.
const maxMappings = 1 << 20

// AddMap adds a mapping. Those of the session's start count from ever.
func (r *Resolver) AddMap(rec *wire.Mmap) {
	if rec.Len == 0 || rec.Start+rec.Len < rec.Start {
		return
	}
	m := &mapping{pid: rec.PID, start: rec.Start, end: rec.Start + rec.Len, offset: rec.Offset, prot: rec.Prot, time: rec.Time}
	if len(rec.BuildID) > 0 {
		m.id = bytes.Clone(rec.BuildID)
	}
	if m.time <= r.session.StartNS {
		m.time = 0
	}
	if r.mapped++; r.mapped > maxMappings {
		r.unmapped = min(r.unmapped, m.time)
		return
	}
	path, deleted := strings.CutSuffix(rec.Path, " (deleted)")
	m.path, m.deleted = r.intern(path), deleted
	r.table(rec.PID).add(m)
}

// AddFork tells who a process comes from: a task that shares the target's memory has its mappings.
func (r *Resolver) AddFork(rec *wire.Fork) {
	if rec.PID != rec.PPID {
		r.parents[rec.PID] = rec.PPID
	}
}

// AddExec tells that a process runs another program from that time on: its earlier mappings are gone.
func (r *Resolver) AddExec(rec *wire.Exec) {
	t := r.table(rec.PID)
	i := sort.Search(len(t.execs), func(i int) bool { return t.execs[i] > rec.Time })
	t.execs = slices.Insert(t.execs, i, rec.Time)
}

// AddThread tells when a process was born, which decides whether a file can be the one that it had mapped.
func (r *Resolver) AddThread(rec *wire.Thread) {
	if rec.PID == rec.TID {
		r.births[rec.PID] = rec.Birth
	}
}

func (r *Resolver) table(pid uint32) *mapTable {
	t := r.tables[pid]
	if t == nil {
		t = &mapTable{}
		r.tables[pid] = t
	}
	return t
}

// mapping returns the mapping that held addr in a process at a time: its own, one of those it comes from, or the
// target's, with whom every task that is hit shares its memory.
func (r *Resolver) mapping(pid uint32, addr, time uint64) *mapping {
	if time >= r.unmapped {
		return nil
	}
	const generations = 8
	for range generations {
		if t := r.tables[pid]; t != nil {
			if m := t.find(addr, time); m != nil {
				return m
			}
		}
		parent, ok := r.parents[pid]
		if !ok {
			break
		}
		pid = parent
	}
	if t := r.tables[uint32(r.session.Target.PID)]; t != nil {
		return t.find(addr, time)
	}
	return nil
}

func (r *Resolver) intern(s string) string {
	if v, ok := r.strings[s]; ok {
		return v
	}
	r.strings[s] = s
	return s
}
