package decode

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"xw/pkg/perfabi"
	"xw/pkg/wire"
)

// arrival is a hit that came out of a ring. Its number is its place in the raw stream.
type arrival struct {
	time   uint64
	cpu    uint32
	number int
}

// model does in the plainest way what the decoder does with the time of hits.
type model struct {
	pending []arrival
	horizon uint64
	late    map[uint32]uint64
	numbers []int
	lates   []wire.Late
}

func (m *model) arrive(a arrival) {
	if a.time < m.horizon {
		m.late[a.cpu]++
	}
	m.pending = append(m.pending, a)
}

func (m *model) round(t uint64, cpus uint32) {
	for cpu := range cpus {
		if m.late[cpu] > 0 {
			m.lates = append(m.lates, wire.Late{CPU: cpu, N: m.late[cpu]})
		}
	}
	clear(m.late)
	slices.SortStableFunc(m.pending, func(a, b arrival) int {
		if a.time != b.time {
			if a.time < b.time {
				return -1
			}
			return 1
		}
		return a.number - b.number
	})
	n := 0
	for n < len(m.pending) && m.pending[n].time <= t {
		m.numbers = append(m.numbers, m.pending[n].number)
		n++
	}
	m.pending = m.pending[n:]
	m.horizon = max(m.horizon, t)
}

// TestOrderAgainstModel has rings of all degrees of disorder, drained in chunks of any size.
func TestOrderAgainstModel(t *testing.T) {
	for _, jitter := range []uint64{1, 20, 1000, 100_000} {
		r := rand.New(rand.NewPCG(jitter, 7))
		const cpus = 5
		m := &model{late: map[uint32]uint64{}}
		records := append([]wire.Record{rawHeader()}, rawSources()...)
		number := 0
		for step := range 300 {
			now := uint64(100 * step)
			for range r.IntN(8) {
				cpu := uint32(r.IntN(cpus))
				var bin []byte
				for range 1 + r.IntN(6) {
					a := arrival{time: now + r.Uint64N(jitter), cpu: cpu, number: number}
					number++
					m.arrive(a)
					bin = append(bin, hitSpec{time: a.time, pid: 7, tid: 7, addr: 0x1000, value: uint64(a.number)}.record()...)
				}
				records = append(records, &wire.Chunk{CPU: cpu, Bin: bin})
			}
			if r.IntN(2) == 0 {
				m.round(now, cpus)
				records = append(records, &wire.Round{T: now})
			}
		}
		m.round(1<<63, cpus)
		numbers, lates := outcome(t, encode(t, append(records, &wire.End{})...))
		if !slices.Equal(numbers, m.numbers) {
			t.Errorf("jitter %d: %d hits in another order than the model's %d", jitter, len(numbers), len(m.numbers))
		}
		if !slices.Equal(lates, m.lates) {
			t.Errorf("jitter %d: late %v, want %v", jitter, lates, m.lates)
		}
	}
}

// outcome are the values of the hits of a raw stream in the order in which they come out, and the late records.
func outcome(t *testing.T, stream []byte) (numbers []int, lates []wire.Late) {
	t.Helper()
	var out bytes.Buffer
	if err := Run(wire.NewReader(bytes.NewReader(stream)), wire.NewWriter(&out)); err != nil {
		t.Fatal(err)
	}
	r := wire.NewReader(&out)
	for r.Next() {
		switch rec := r.Record().(type) {
		case *wire.Sample:
			numbers = append(numbers, int(rec.Value.V))
		case *wire.Late:
			lates = append(lates, *rec)
		case *wire.Malformed:
			t.Fatalf("malformed: %s", rec.Reason)
		}
	}
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	return numbers, lates
}

// TestPendingIsBounded never sends a round. Everything comes out all the same, and the bound holds throughout.
func TestPendingIsBounded(t *testing.T) {
	const hits, bound = 50_000, 3 << 20
	records := append([]wire.Record{rawHeader()}, rawSources()...)
	for i := range hits / 10 {
		var bin []byte
		for j := range 10 {
			n := uint64(10*i + j)
			bin = append(bin, hitSpec{time: n, pid: 7, tid: 7, addr: 0x1000, value: n}.record()...)
		}
		records = append(records, &wire.Chunk{Bin: bin})
	}
	// As old as can be, when most have been released early.
	records = append(records, &wire.Chunk{CPU: 1, Bin: hitSpec{time: 1, addr: 0x1000, value: hits}.record()}, &wire.End{})
	var out bytes.Buffer
	in := wire.NewReader(bytes.NewReader(encode(t, records...)))
	d := newDecoder(in, wire.NewWriter(&out))
	d.maxPending = bound
	if !in.Next() {
		t.Fatal(in.Err())
	}
	if err := d.header(in.Record().(*wire.Header)); err != nil {
		t.Fatal(err)
	}
	most := 0
	for in.Next() {
		if err := d.record(in.Record()); err != nil {
			t.Fatal(err)
		}
		most = max(most, d.arena.held+d.order.count*entrySize)
	}
	if most > bound || most < bound/2 {
		t.Errorf("%d bytes were pending, the bound is %d", most, bound)
	}
	if err := d.out.Flush(); err != nil {
		t.Fatal(err)
	}
	r := wire.NewReader(&out)
	n, late, last := 0, uint64(0), uint64(0)
	for r.Next() {
		switch rec := r.Record().(type) {
		case *wire.Sample:
			n++
			if rec.Value.V == hits {
				break // the late one
			}
			if rec.Value.V < last {
				t.Fatalf("hit %d after hit %d", rec.Value.V, last)
			}
			last = rec.Value.V
		case *wire.Late:
			late += rec.N
		}
	}
	if n != hits+1 || late != 1 || r.Err() != nil {
		t.Errorf("%d hits, %d late, error %v; want %d hits, 1 late", n, late, r.Err(), hits+1)
	}
}

// TestMemoryIsUsedAgain sends many rounds and looks at what the decoder holds in the end.
func TestMemoryIsUsedAgain(t *testing.T) {
	stream := load(t, 60_000)
	in := wire.NewReader(bytes.NewReader(stream))
	d := newDecoder(in, wire.NewWriter(discard{}))
	if err := d.run(); err != nil {
		t.Fatal(err)
	}
	if len(d.arena.blocks) > 8 || d.arena.held > 4*blockSize {
		t.Errorf("%d blocks, %d bytes for rounds of 272 kB", len(d.arena.blocks), d.arena.held)
	}
	for cpu, r := range d.rings {
		if cap(r.list) > 4096 {
			t.Errorf("cpu %d: list of %d entries for rounds of 500", cpu, cap(r.list))
		}
	}
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

func TestArenaGivesBurstsBack(t *testing.T) {
	var a arena
	var places []place
	for range 100 {
		places = append(places, a.put(make([]byte, blockSize/2+1), 1))
	}
	big := a.put(bytes.Repeat([]byte{7}, blockSize+5), 2)
	if got := a.bytes(place{big.block, 5}, blockSize); len(got) != blockSize || got[0] != 7 {
		t.Errorf("%d bytes of a large record", len(got))
	}
	for _, p := range places {
		a.drop(p)
	}
	a.drop(big)
	a.drop(big)
	kept := 0
	for _, b := range a.blocks {
		kept += cap(b.buf)
	}
	if limit := (spareBlocks + 2) * blockSize; kept > limit {
		t.Errorf("%d bytes are kept, the limit is %d", kept, limit)
	}
	for range 200 {
		p := a.put(make([]byte, blockSize), 1)
		a.drop(p)
	}
	if len(a.blocks) > 102 || a.held > 2*blockSize {
		t.Errorf("%d blocks, %d bytes in use after all was dropped", len(a.blocks), a.held)
	}
}

func TestHitDoesNotAllocate(t *testing.T) {
	in := wire.NewReader(bytes.NewReader(load(t, 100_000)))
	d := newDecoder(in, wire.NewWriter(discard{}))
	if !in.Next() || d.header(in.Record().(*wire.Header)) != nil {
		t.Fatal(in.Err())
	}
	round := func() {
		for in.Next() {
			if err := d.record(in.Record()); err != nil {
				t.Fatal(err)
			}
			if _, ok := in.Record().(*wire.Round); ok {
				return
			}
		}
		t.Fatalf("the stream is over: %v", in.Err())
	}
	for range 20 {
		round()
	}
	if n := testing.AllocsPerRun(70, round); n != 0 {
		t.Errorf("%v allocations in a round of 1000 hits", n)
	}
}

// TestSinkErrorEnds lets the output fail at every record.
func TestSinkErrorEnds(t *testing.T) {
	in := encode(t, append(append([]wire.Record{rawHeader()}, rawSources()...),
		&wire.Chunk{Bin: append(hitSpec{time: 5, addr: 0x1000, comm: "a"}.record(), perfRecord(99, 0, 1)...)}, &wire.Round{T: 9},
		&wire.Bound{Time: 10, Watch: 2}, &wire.Chunk{Bin: hitSpec{time: 1, addr: 0x1000}.record()}, &wire.Round{T: 20},
		&wire.Map{Start: 1, End: 2}, &wire.Note{}, &wire.Counts{}, &wire.End{})...)
	whole := &failing{left: 1 << 30}
	if err := Run(wire.NewReader(bytes.NewReader(in)), whole); err != nil {
		t.Fatal(err)
	}
	for n := range whole.written {
		sink := &failing{left: n}
		if err := Run(wire.NewReader(bytes.NewReader(in)), sink); !errors.Is(err, errFull) || sink.written != n {
			t.Errorf("sink that fails after %d records: error %v after %d", n, err, sink.written)
		}
	}
	if err := Run(wire.NewReader(bytes.NewReader(in)), &failing{left: 1 << 30, flush: errFull}); !errors.Is(err, errFull) {
		t.Errorf("sink that does not flush: error %v", err)
	}
}

var errFull = errors.New("full")

// failing is a sink that takes so many records.
type failing struct {
	left, written int
	flush         error
}

func (f *failing) WriteRaw([]byte) error {
	if f.left == 0 {
		return errFull
	}
	f.left--
	f.written++
	return nil
}

func (f *failing) Write(wire.Record) error { return f.WriteRaw(nil) }
func (f *failing) Flush() error            { return f.flush }

// TestHeapSorts is the heap alone.
func TestHeapSorts(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		var h heap[entry]
		var want []uint64
		for range r.IntN(40) {
			v := r.Uint64N(20)
			want = append(want, v)
			h.push(entry{time: v})
		}
		slices.Sort(want)
		var got []uint64
		for len(h) > 0 {
			got = append(got, h[0].time)
			h.pop()
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}

// TestSparseSampleType decodes samples of an event without a time: they stay in the order of their ring.
func TestSparseSampleType(t *testing.T) {
	const sampleType = perfabi.SampleIdentifier | perfabi.SampleIP | perfabi.SampleAddr
	stream := encode(t, rawHeader(), rawSources()[0],
		&wire.Source{Role: roleBreakpoint, Watch: wire.Some(1), SampleType: sampleType, IDs: ids(401)},
		&wire.Chunk{Bin: slices.Concat(hitSpec{time: 5, addr: 0x1000}.record(), perfRecord(perfabi.RecordSample, 0, 401, 0x400510, 0x2000),
			hitSpec{time: 6, addr: 0x1000}.record())},
		&wire.Round{T: 9}, &wire.Chunk{Bin: perfRecord(perfabi.RecordSample, 0, 401, 0x400520, 0x2000)}, &wire.Round{T: 10}, &wire.End{})
	out, err := runText(stream)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"sample time=5 cpu=0 pid=0 tid=0 watch=1 generation=1 addr=0x2000 ip=0x400510",
		"sample time=9 cpu=0 pid=0 tid=0 watch=1 generation=1 addr=0x2000 ip=0x400520"} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	if bytes.Contains(out, []byte("\nlate ")) {
		t.Errorf("a record without a time is late:\n%s", out)
	}
}
