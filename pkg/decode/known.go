package decode

import (
	"bytes"

	"xw/pkg/perfabi"
	"xw/pkg/wire"
)

// maxBindings is how many bindings of a watch are remembered. Samples are stamped within a round or two of their hit,
// in which a watch cannot move that often: one move takes some 100 us.
const maxBindings = 1024

// binding is a time from which a level of a chain was armed at an address.
type binding struct {
	addr       uint64
	start      uint64 // ns, before the first ioctl
	generation uint64
}

// bindings are those of one watch, by start. A plain watch has none and stays in generation 1.
type bindings struct {
	moves bool
	list  []binding
}

// start takes the first binding from the header.
func (b *bindings) start(w *wire.Watch) {
	b.moves = w.Chain.OK
	if b.moves && w.Addr.OK {
		b.list = append(b.list, binding{addr: w.Addr.V, generation: 1})
	}
}

func (b *bindings) add(n binding) {
	i := len(b.list)
	for i > 0 && b.list[i-1].start > n.start {
		i--
	}
	if i > 0 && b.list[i-1].addr == n.addr && b.list[i-1].generation == n.generation {
		return // the answer to a read: the binding as it stands
	}
	if len(b.list) == 2*maxBindings {
		forget := min(i, maxBindings)
		b.list = append(b.list[:0], b.list[forget:]...)
		i -= forget
	}
	b.list = append(b.list, binding{})
	copy(b.list[i+1:], b.list[i:])
	b.list[i] = n
}

// generation is that of a hit at addr: of the bindings there, the latest that had started. 0 if there is none.
func (b *bindings) generation(addr, time uint64) uint64 {
	if !b.moves {
		return 1
	}
	for i := len(b.list) - 1; i >= 0; i-- {
		if b.list[i].addr == addr && b.list[i].start <= time {
			return b.list[i].generation
		}
	}
	return 0
}

// bind remembers where a level of a chain was armed.
func (d *decoder) bind(r *wire.Bound) {
	if r.Errno == 0 && r.Addr.OK && uint64(r.Watch) < uint64(len(d.bindings)) {
		d.bindings[r.Watch].add(binding{addr: r.Addr.V, start: r.Start, generation: r.Generation})
	}
}

// name is a thread's, NUL-padded.
type name [perfabi.HitCommSize]byte

func newName(b []byte) (n name) {
	if end := bytes.IndexByte(b, 0); end >= 0 {
		b = b[:end]
	}
	copy(n[:], b)
	return n
}

func (n *name) String() string {
	return string(bytes.TrimRight(n[:], "\x00"))
}

// maxNames bounds the threads whose names are remembered. Beyond it all are forgotten, and told again at their hits.
const maxNames = 1 << 16

// names are those of threads as the reader of the events stream knows them, by thread id.
type names map[uint32]name

func newNames() names { return names{} }

func (n names) set(tid uint32, comm []byte) {
	n.add(tid, newName(comm))
}

func (n names) add(tid uint32, v name) {
	if len(n) >= maxNames {
		clear(n)
	}
	n[tid] = v
}

// learn takes a name seen at a hit and says whether it is news.
func (n names) learn(tid uint32, comm []byte) (name, bool) {
	seen := name(comm)
	known, ok := n[tid]
	if ok && known == seen {
		return known, false
	}
	seen = newName(comm)
	if seen == (name{}) || ok && known == seen {
		return seen, false
	}
	n.add(tid, seen)
	return seen, true
}

// code is the code at an ip: the bytes from start on.
type code struct {
	ip, start uint64
	n         int
	bytes     [perfabi.HitCodeSize]byte
}

// set takes the code that a hit at ip brought.
func (c *code) set(ip uint64, h *perfabi.Hit) {
	*c = code{ip: ip, start: ip - perfabi.HitCodeBack + uint64(h.CodeAt)}
	c.n = copy(c.bytes[:], h.Code)
}

// maxCodes bounds the pieces of code that are remembered, some 10 MB. Beyond it all are forgotten and may be told again.
const maxCodes = 1 << 16

// codes are the pieces of code that the reader of the events stream has.
type codes struct {
	all    map[code]struct{}
	recent [128]code // some of all, by ip: most hits are spared the search
}

func newCodes() codes { return codes{all: map[code]struct{}{}} }

// isRecent says whether the code of a hit at ip is a recent one: of most hits this is all that has to be known.
func (c *codes) isRecent(ip uint64, h *perfabi.Hit) bool {
	k := &c.recent[ip%uint64(len(c.recent))]
	return k.ip == ip && k.start == ip-perfabi.HitCodeBack+uint64(h.CodeAt) && bytes.Equal(k.bytes[:k.n], h.Code)
}

// learn says whether the code of a hit is news.
func (c *codes) learn(k *code) bool {
	c.recent[k.ip%uint64(len(c.recent))] = *k
	if _, known := c.all[*k]; known {
		return false
	}
	if len(c.all) >= maxCodes {
		clear(c.all)
	}
	c.all[*k] = struct{}{}
	return true
}
