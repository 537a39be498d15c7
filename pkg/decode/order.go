package decode

// entry is one pending record.
type entry struct {
	time uint64 // ns; what the record is ordered by
	seq  uint64 // position in the raw stream, which orders equal times
	place
	size   uint32
	cpu    uint32
	source int32 // index of the source, unknownSource or passOn
}

const (
	unknownSource = -1 // a perf record of an event that no source record has told of
	passOn        = -2 // no perf record but a record of the raw stream, to be passed on as it is
)

// entrySize is what an entry takes in memory.
const entrySize = 40

func (e entry) before(o entry) bool {
	return e.time < o.time || e.time == o.time && e.seq < o.seq
}

// queue holds pending records of one origin in order.
type queue struct {
	list []entry
	head int // index of the first one in list
}

func (q *queue) before(o *queue) bool { return q.list[q.head].before(o.list[o.head]) }
func (q *queue) empty() bool          { return q.head == len(q.list) }

func (q *queue) push(e entry) {
	const sparse = 4096 // entries before head that are worth moving the others
	if q.empty() {
		q.list, q.head = q.list[:0], 0
	} else if q.head > sparse && q.head > len(q.list)/2 {
		q.list, q.head = q.list[:copy(q.list, q.list[q.head:])], 0
	}
	q.list = append(q.list, e)
}

// order merges the queues by time. The records of one ring are nearly sorted: those that are not in order go to a heap
// of their own, so that no input costs more than a logarithm a record.
type order struct {
	ready      heap[*queue] // the queues that are not empty
	stragglers heap[entry]
	count      int
}

// add puts e at the end of q, or among the stragglers.
func (o *order) add(q *queue, e entry) {
	o.count++
	if q.empty() {
		q.push(e)
		o.ready.push(q)
		return
	}
	if e.before(q.list[len(q.list)-1]) {
		o.stragglers.push(e)
		return
	}
	q.push(e)
}

// next removes the first record of all if its time is not after limit.
func (o *order) next(limit uint64) (e entry, ok bool) {
	if len(o.stragglers) > 0 && (len(o.ready) == 0 || o.stragglers[0].before(o.ready[0].list[o.ready[0].head])) {
		if e = o.stragglers[0]; e.time > limit {
			return entry{}, false
		}
		o.stragglers.pop()
		o.count--
		return e, true
	}
	if len(o.ready) == 0 {
		return entry{}, false
	}
	q := o.ready[0]
	if e = q.list[q.head]; e.time > limit {
		return entry{}, false
	}
	if q.head++; q.empty() {
		o.ready.pop()
	} else {
		o.ready.fix()
	}
	o.count--
	return e, true
}
