package report

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"

	"xw/pkg/wire"
)

// thread is one life of a thread id: ids are used again, so a thread is its id and its birth.
type thread struct {
	tid   uint32
	birth wire.Opt
	comm  string
	index uint32     // dense, from 1 on, among the threads that made hits; 0: none yet
	kept  bool       // in threads.list
	on    []onThread // by watch; nil until the first hit
}

// onThread is what one thread did to one watch.
type onThread struct {
	hits uint64
	last lastHit
}

// threads knows the threads of the target.
type threads struct {
	watches int
	byTID   map[uint32]*thread // the present holder of each id
	recent  *thread
	hitters uint32         // threads that made hits
	list    []*thread      // the first MaxEntries of them
	folded  []foldedThread // by watch: those beyond
}

type foldedThread struct {
	threads, hits uint64
}

func newThreads(watches int) threads {
	return threads{watches: watches, byTID: map[uint32]*thread{}, folded: make([]foldedThread, watches)}
}

// get returns the thread that holds tid; one that no record has told of gets an unknown birth.
func (ts *threads) get(tid uint32) *thread {
	if t := ts.recent; t != nil && t.tid == tid {
		return t
	}
	t := ts.byTID[tid]
	if t == nil {
		t = &thread{tid: tid}
		ts.byTID[tid] = t
	}
	ts.recent = t
	return t
}

// hit counts a hit of t on watch w.
func (ts *threads) hit(t *thread, w uint64) {
	if t.on == nil {
		ts.hitters++
		t.index = ts.hitters
		t.on = make([]onThread, ts.watches)
		if len(ts.list) < MaxEntries {
			t.kept = true
			ts.list = append(ts.list, t)
		}
	}
	on := &t.on[w]
	if !t.kept {
		if on.hits == 0 {
			ts.folded[w].threads++
		}
		ts.folded[w].hits++
	}
	on.hits++
}

func (ts *threads) attached(r *wire.Thread) {
	t := ts.get(r.TID)
	switch {
	case !t.birth.OK:
		t.birth = wire.Some(r.Birth)
	case distance(t.birth.V, r.Birth) > birthError: // another life, in a later stream
		t = &thread{tid: r.TID, birth: wire.Some(r.Birth)}
		ts.byTID[r.TID], ts.recent = t, t
	}
	t.comm = r.Comm
}

// fork starts a new life of a thread id. A task has its parent's name until it gets one of its own.
func (ts *threads) fork(r *wire.Fork) {
	t := &thread{tid: r.TID, birth: wire.Some(r.Time)}
	if parent := ts.byTID[r.PTID]; parent != nil {
		t.comm = parent.comm
	}
	ts.byTID[r.TID], ts.recent = t, t
}

// exit forgets a thread that made no hit. Of one that did the counts are kept under its id until the next fork: a record
// that is late may still name it.
func (ts *threads) exit(tid uint32) {
	t := ts.byTID[tid]
	if t == nil {
		return
	}
	for i := range t.on {
		t.on[i].last = lastHit{}
	}
	if t.on == nil {
		delete(ts.byTID, tid)
		if ts.recent == t {
			ts.recent = nil
		}
	}
}

func (ts *threads) named(tid uint32, comm string) {
	ts.get(tid).comm = comm
}

// counts lists the threads that made hits on watch w, most hits first, and returns their number.
func (ts *threads) counts(w uint64) ([]ThreadCount, uint64) {
	list := []ThreadCount{}
	for _, t := range ts.list {
		if hits := t.on[w].hits; hits > 0 {
			list = append(list, ThreadCount{TID: num(uint64(t.tid)), Comm: Text(t.comm), Hits: hits, BirthNS: Num(t.birth)})
		}
	}
	slices.SortStableFunc(list, func(a, b ThreadCount) int {
		return cmp.Or(cmp.Compare(b.Hits, a.Hits), cmp.Compare(a.TID.V, b.TID.V), cmp.Compare(a.BirthNS.V, b.BirthNS.V))
	})
	f := ts.folded[w]
	n := uint64(len(list)) + f.threads
	if f.threads > 0 {
		list = append(list, ThreadCount{Hits: f.hits, Folded: num(f.threads)})
	}
	return list, n
}

// threadSet is a set of thread indexes: one bit each, in words that exist only where a bit is set.
type threadSet struct {
	recent uint32
	n      uint64
	words  map[uint32]uint64
}

func (s *threadSet) add(index uint32) {
	if s.recent == index {
		return
	}
	s.recent = index
	word, bit := index/64, uint64(1)<<(index%64)
	if old := s.words[word]; old&bit == 0 {
		if s.words == nil {
			s.words = map[uint32]uint64{}
		}
		s.words[word] = old | bit
		s.n++
	}
}

func (s *threadSet) clone() threadSet { return threadSet{n: s.n, words: maps.Clone(s.words)} }

// union adds the threads of another set.
func (s *threadSet) union(other *threadSet) {
	if s.words == nil {
		s.words = map[uint32]uint64{}
	}
	for word, set := range other.words {
		s.n += uint64(bits.OnesCount64(set &^ s.words[word]))
		s.words[word] |= set
	}
}
