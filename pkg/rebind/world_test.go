package rebind

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"xw/pkg/wire"
)

// world is a target with a chain in its memory, and the xw-open that watches it: the ground truth for the Machine. Time
// advances by one tick for everything that happens, so that stores fall between any two steps of a command.
type world struct {
	rng     *rand.Rand
	memory  map[uint64]uint64
	offsets []uint64   // of the levels below the first
	objects [][]uint64 // for each level but the last, where the objects are that its slots may point to
	values  bool       // stores are sampled with their value
	now     uint64

	armed    []wire.Opt // by level: where the hardware watches
	gens     []uint64
	bound    []binding // all there ever were
	commands []wire.Record
	state    *execution // of the first command

	samples []wire.Record // not yet released by xw-decode
	answers []wire.Record
	late    []wire.Record // released a round later
	blind   []uint64      // ticks at which the leaf was not where it should be

	trapped [2]uint64 // until when a CPU is held up between a store and its sample
	faults  faults
	errno   map[uint64]bool // addresses that cannot be armed
}

// faults are what goes wrong, each once in so many cases; 0 is never.
type faults struct {
	skewed int // the sample's time is after the store
	late   int // the sample comes a round late
	lost   int // the sample is lost, and a lost record tells of it
	mute   int // the answer is lost
	errno  int // the address cannot be armed
}

func (w *world) oneIn(n int) bool { return n > 0 && w.rng.IntN(n) == 0 }

type binding struct {
	level int
	gen   uint64
	addr  uint64
	start uint64
}

// execution is a command that xw-open is carrying out.
type execution struct {
	step  int
	start uint64
	value wire.Opt
}

const (
	tick = 1_000 // ns
	root = 0x1000
)

// newWorld makes a chain of so many levels, in objects that are armed as memory says.
func newWorld(seed uint64, levels int, values bool, faults faults) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 1)), memory: map[uint64]uint64{}, values: values, now: 1000 * tick,
		faults: faults, errno: map[uint64]bool{}}
	for j := 1; j < levels; j++ {
		w.offsets = append(w.offsets, uint64(0x10*j))
		var list []uint64
		for i := range 3 {
			list = append(list, uint64(j)<<20+uint64(i)<<12)
		}
		w.objects = append(w.objects, list)
	}
	w.memory[root] = w.objects[0][0]
	for j := 0; j+1 < len(w.objects); j++ {
		for _, o := range w.objects[j] {
			w.memory[o+w.offsets[j]] = w.objects[j+1][w.rng.IntN(3)]
		}
	}
	w.armed = make([]wire.Opt, levels)
	w.gens = make([]uint64, levels)
	for j := range levels {
		w.gens[j] = 1
		w.armed[j] = w.place(j)
		if w.armed[j].OK {
			w.bound = append(w.bound, binding{j, 1, w.armed[j].V, w.now})
		}
		w.answer(j, 0, w.now)
		w.now += tick
	}
	return w
}

func (w *world) session() *wire.Session {
	s := &wire.Session{Target: wire.Target{Bits: 64}}
	for j := range w.armed {
		watch := wire.Watch{ID: uint64(j), Name: fmt.Sprint("level", j), Addr: w.armed[j], Len: 8, Role: "header",
			Chain: wire.Some(0)}
		if j > 0 {
			watch.Parent, watch.Offset = wire.Some(uint64(j-1)), int64(w.offsets[j-1])
		}
		switch j {
		case len(w.armed) - 1:
			watch.Role = "leaf"
		case len(w.armed) - 2:
			watch.Role = "pointer"
		}
		s.Watches = append(s.Watches, watch)
	}
	return s
}

// place is where level j is by the memory as it stands.
func (w *world) place(j int) wire.Opt {
	addr := uint64(root)
	for _, offset := range w.offsets[:j] {
		pointer := w.memory[addr]
		if pointer == 0 || pointer%8 != 0 || pointer >= wire.UserEnd(64) {
			return wire.Opt{}
		}
		addr = pointer + offset
	}
	return wire.Some(addr)
}

// advance ends a tick.
func (w *world) advance() {
	leaf := len(w.armed) - 1
	if place := w.place(leaf); place.OK && place != w.armed[leaf] {
		w.blind = append(w.blind, w.now)
	}
	w.now += tick
}

// store writes a slot somewhere in the chain: of the objects in use or of others.
func (w *world) store() {
	cpu := w.rng.Uint32N(2)
	if w.now <= w.trapped[cpu] {
		return
	}
	j := w.rng.IntN(len(w.objects))
	addr := uint64(root)
	if j > 0 {
		addr = w.objects[j-1][w.rng.IntN(3)] + w.offsets[j-1]
	}
	value := w.objects[j][w.rng.IntN(3)]
	switch w.rng.IntN(12) {
	case 0:
		value = 0
	case 1:
		value = 1<<63 + 8
	case 2:
		value = w.objects[j][0] + 3
	}
	w.memory[addr] = value
	if w.armed[j] != wire.Some(addr) {
		return
	}
	s := &wire.Sample{Time: w.now, CPU: cpu, Watch: uint32(j), Addr: addr}
	if w.values {
		s.Value = wire.Some(value)
	}
	if w.oneIn(w.faults.skewed) {
		s.Time += w.rng.Uint64N(60 * tick)
		w.trapped[cpu] = s.Time
	}
	switch {
	case w.oneIn(w.faults.lost):
		w.samples = append(w.samples, &wire.Lost{Time: w.now + tick/2, N: 1})
	case w.oneIn(w.faults.late):
		w.late = append(w.late, s)
	default:
		w.samples = append(w.samples, s)
	}
}

// serve takes one step of a command: begin, arm, read, answer.
func (w *world) serve() {
	if len(w.commands) == 0 {
		return
	}
	level, gen, addr := parts(w.commands[0])
	_, reads := w.commands[0].(*wire.Read)
	if w.state == nil {
		w.state = &execution{start: w.now}
		return
	}
	if w.state.step == 0 && addr.OK {
		w.errno[addr.V] = w.oneIn(w.faults.errno)
	}
	fails := addr.OK && w.errno[addr.V]
	w.state.step++
	switch w.state.step {
	case 1:
		if reads {
			return
		}
		w.gens[level] = gen
		w.armed[level] = addr
		if fails {
			w.armed[level] = wire.Opt{}
		} else if addr.OK {
			w.bound = append(w.bound, binding{level, gen, addr.V, w.state.start})
		}
	case 2:
		if a := w.armed[level]; a.OK && level < len(w.armed)-1 {
			w.state.value = wire.Some(w.memory[a.V])
		}
	case 3:
		errno := uint32(0)
		if fails {
			errno = 22
		}
		if !w.oneIn(w.faults.mute) {
			w.answer(level, errno, w.state.start)
		}
		w.commands, w.state = w.commands[1:], nil
	}
}

func parts(r wire.Record) (level int, gen uint64, addr wire.Opt) {
	switch r := r.(type) {
	case *wire.Bind:
		return int(r.Watch), r.Generation, wire.Some(r.Addr)
	case *wire.Unbind:
		return int(r.Watch), r.Generation, wire.Opt{}
	case *wire.Read:
		return int(r.Watch), r.Generation, wire.Opt{}
	}
	panic("not a command")
}

func (w *world) answer(level int, errno uint32, start uint64) {
	b := &wire.Bound{Time: w.now, Watch: uint32(level), Generation: w.gens[level], Addr: w.armed[level], Errno: errno,
		Start: start}
	if w.state != nil {
		b.Value = w.state.value
	} else if b.Addr.OK && level < len(w.armed)-1 {
		b.Value = wire.Some(w.memory[b.Addr.V])
	}
	w.answers = append(w.answers, b)
}

// round returns all records so far in the order of time, samples stamped with their generation: what xw-decode does.
func (w *world) round() []wire.Record {
	all := append(w.samples, w.answers...)
	for _, r := range all {
		w.stamp(r)
	}
	slices.SortStableFunc(all, func(a, b wire.Record) int { return int(timeOf(a)) - int(timeOf(b)) })
	w.samples, w.answers, w.late = w.late, nil, nil
	for i, r := range all {
		if timeOf(r) > w.now {
			w.samples = append(w.samples, all[i:]...)
			return all[:i]
		}
	}
	return all
}

func (w *world) stamp(r wire.Record) {
	s, ok := r.(*wire.Sample)
	if !ok {
		return
	}
	for _, b := range w.bound {
		if b.level == int(s.Watch) && b.addr == s.Addr && b.start <= s.Time {
			s.Generation = b.gen
		}
	}
}

func timeOf(r wire.Record) uint64 {
	switch r := r.(type) {
	case *wire.Sample:
		return r.Time
	case *wire.Bound:
		return r.Time
	case *wire.Lost:
		return r.Time
	}
	panic("no time")
}
