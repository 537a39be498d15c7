package decode

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"xw/pkg/perfabi"
	"xw/pkg/wire"
)

// TestHitIsVisibleAtOnce sends a hit and its round, and nothing more, and waits for the hit downstream.
func TestHitIsVisibleAtOnce(t *testing.T) {
	for _, toSink := range []func(io.Writer) wire.Sink{toBinary, toText} {
		rawOut, rawIn := io.Pipe()
		eventsOut, eventsIn := io.Pipe()
		done := make(chan error, 1)
		go func() { done <- Run(wire.NewReader(rawOut), toSink(eventsIn)) }()
		raw, events := wire.NewWriter(rawIn), wire.NewReader(eventsOut)
		send := func(records ...wire.Record) {
			for _, r := range records {
				if err := raw.Write(r); err != nil {
					t.Fatal(err)
				}
			}
			if err := raw.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		await := func(kind string) wire.Record {
			for events.Next() {
				if r := events.Record(); r.Kind() == kind {
					return r
				}
			}
			t.Fatalf("no %s: %v", kind, events.Err())
			return nil
		}
		send(rawHeader())
		await("xw")
		send(rawSources()...)
		for i := range uint64(3) {
			send(&wire.Chunk{Bin: hitSpec{time: 100 * i, addr: 0x1000, value: i}.record()}, &wire.Round{T: 100*i + 50})
			if got := await("sample").(*wire.Sample); got.Value.V != i {
				t.Errorf("hit %d, want %d", got.Value.V, i)
			}
		}
		send(&wire.End{})
		await("end")
		rawIn.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestEveryCut cuts a stream after every byte: what was whole is decoded, and the cut is told.
func TestEveryCut(t *testing.T) {
	text, err := os.ReadFile("../../testdata/raw/hits.txt")
	if err != nil {
		t.Fatal(err)
	}
	stream := convert(t, text, toBinary)
	ends, last := recordEnds(t, stream), []byte(nil)
	for n := range len(stream) {
		got, err := runText(stream[:n])
		if !errors.Is(err, wire.ErrTruncated) {
			t.Fatalf("cut to %d bytes: error %v", n, err)
		}
		if bytes.Contains(got, []byte("\nend ")) {
			t.Fatalf("cut to %d bytes: has an end record", n)
		}
		if _, whole := slices.BinarySearch(ends, n); whole {
			last = got
		} else if !bytes.Equal(got, last) { // nothing is made of a part of a record
			t.Fatalf("cut to %d bytes: differs from the cut at the end of the record before:\n%s", n, got)
		}
	}
	if n := bytes.Count(last, []byte("\nsample ")); n != 18 {
		t.Errorf("%d hits in the longest, want 18", n)
	}
}

// recordEnds are the offsets at which records of a binary stream end.
func recordEnds(t *testing.T, stream []byte) (ends []int) {
	t.Helper()
	r := wire.NewReader(bytes.NewReader(stream))
	for r.Next() {
		ends = append(ends, int(r.Offset())+len(r.Raw()))
	}
	if r.Err() != nil {
		t.Fatal(r.Err())
	}
	return ends
}

// TestMalformedOffset looks the bytes of malformed records up in the raw stream.
func TestMalformedOffset(t *testing.T) {
	for _, file := range []string{"broken", "plain", "order"} {
		text, err := os.ReadFile("../../testdata/raw/" + file + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		stream := convert(t, text, toBinary)
		var out bytes.Buffer
		if err := Run(wire.NewReader(bytes.NewReader(stream)), wire.NewWriter(&out)); err != nil {
			t.Fatal(err)
		}
		n := 0
		for r := wire.NewReader(&out); r.Next(); {
			if m, ok := r.Record().(*wire.Malformed); ok {
				n++
				if !bytes.HasPrefix(stream[m.Offset:], m.Bin) {
					t.Errorf("%s: %s: other bytes at %d", file, m.Reason, m.Offset)
				}
			}
		}
		if n == 0 {
			t.Errorf("%s: nothing is malformed", file)
		}
	}
}

// TestCorruptStream breaks the framing: the good records before it are decoded and its place is told.
func TestCorruptStream(t *testing.T) {
	good := encode(t, append(append([]wire.Record{rawHeader()}, rawSources()...), &wire.Chunk{Bin: hitSpec{time: 5, addr: 0x1000}.record()})...)
	got, err := runText(append(bytes.Clone(good), 0xc1, 0xc1))
	var format *wire.FormatError
	if !errors.As(err, &format) || format.Offset != int64(len(good)) {
		t.Errorf("error %v, want one at byte %d", err, len(good))
	}
	if !bytes.Contains(got, []byte("sample time=5 ")) || bytes.Contains(got, []byte("\nend ")) {
		t.Errorf("got:\n%s", got)
	}
}

func TestBindingsAreForgotten(t *testing.T) {
	var b bindings
	b.start(&wire.Watch{Chain: wire.Some(0), Addr: wire.Some(0x10)})
	const n = 10_000
	for i := uint64(2); i <= n; i++ {
		b.add(binding{addr: 0x10 + i%2*0x10, start: 100 * i, generation: i})
		if len(b.list) > 2*maxBindings {
			t.Fatalf("%d bindings are remembered", len(b.list))
		}
	}
	for _, back := range []uint64{0, 1, 2, 100, maxBindings - 1} {
		g := uint64(n) - back
		if got := b.generation(0x10+g%2*0x10, 100*g+150); got != g {
			t.Errorf("%d moves ago: generation %d, want %d", back, got, g)
		}
	}
	if got := b.generation(0x10, 50); got != 0 {
		t.Errorf("a binding long forgotten: generation %d", got)
	}
}

// TestBindingsOutOfOrder learns of bindings in every order: the stamps are the same.
func TestBindingsOutOfOrder(t *testing.T) {
	all := []binding{{0x10, 100, 1}, {0x20, 200, 2}, {0x10, 300, 3}, {0x10, 400, 4}}
	permute(all, 0, func(order []binding) {
		b := bindings{moves: true}
		for _, n := range order {
			b.add(n)
		}
		got := fmt.Sprint(b.generation(0x10, 99), b.generation(0x10, 100), b.generation(0x10, 299), b.generation(0x10, 300),
			b.generation(0x20, 250), b.generation(0x10, 1000), b.generation(0x20, 1000), b.generation(0x30, 1000))
		if want := "0 1 1 3 2 4 2 0"; got != want {
			t.Errorf("%v: got %s, want %s", order, got, want)
		}
	})
}

func permute(list []binding, from int, f func([]binding)) {
	if from == len(list) {
		f(list)
		return
	}
	for i := from; i < len(list); i++ {
		list[from], list[i] = list[i], list[from]
		permute(list, from+1, f)
		list[from], list[i] = list[i], list[from]
	}
}

func TestNamesAreBounded(t *testing.T) {
	n := newNames()
	for tid := range uint32(maxNames + 10) {
		if _, isNew := n.learn(tid, []byte("0123456789abcdef")); !isNew {
			t.Fatalf("thread %d is known", tid)
		}
	}
	if len(n) > maxNames {
		t.Errorf("%d names are remembered", len(n))
	}
	got, isNew := n.learn(maxNames, []byte("short\x00garbage-xy"))
	if !isNew || got.String() != "short" {
		t.Errorf("got %q, %v", got.String(), isNew)
	}
	if _, isNew := n.learn(maxNames, []byte("short\x00other-more")); isNew {
		t.Error("a name is news for what is behind its end")
	}
}

func TestCodesAreBoundedAndToldOnce(t *testing.T) {
	c := newCodes()
	told := 0
	for i := range uint64(3 * 500) { // 500 ips share places among the recent
		if c.learn(&code{ip: i % 500, n: 1}) {
			told++
		}
	}
	if told != 500 {
		t.Errorf("500 pieces of code were told %d times", told)
	}
	for i := range uint64(maxCodes + 10) {
		c.learn(&code{ip: i, n: 2})
	}
	if len(c.all) > maxCodes {
		t.Errorf("%d pieces of code are remembered", len(c.all))
	}
}

func TestTooManyEvents(t *testing.T) {
	s := newSources()
	id := uint64(0)
	for {
		list := make([]uint64, 1<<16)
		for i := range list {
			id++
			list[i] = id
		}
		if err := s.add(&wire.Source{IDs: ids(list...)}); err != nil {
			break
		}
		if len(s.byID) > maxIDs {
			t.Fatalf("%d events are remembered", len(s.byID))
		}
	}
	if len(s.byID) != maxIDs {
		t.Errorf("%d events fit, want %d", len(s.byID), maxIDs)
	}
}

// TestHeaderStandsForItself checks what the header of the events says of its samples.
func TestHeaderStandsForItself(t *testing.T) {
	h := rawHeader()
	h.Session.Target.Comm, h.Session.Notes = "prog", []string{"a note"}
	got, err := runText(encode(t, h, &wire.End{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`xw version=1 stream="events" `, `"notes":["a note"]`, `"sample_fields":["time","cpu",`, `"comm":"prog"`} {
		if !strings.Contains(string(got), want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
}

// TestManyCPUs merges more rings than any heap of two.
func TestManyCPUs(t *testing.T) {
	records := append([]wire.Record{rawHeader()}, rawSources()...)
	var want []int
	const cpus = 300
	for cpu := range cpus {
		var bin []byte
		for i := range 5 {
			n := i*cpus + (cpu*7)%cpus
			bin = append(bin, hitSpec{time: uint64(n), addr: 0x1000, value: uint64(n)}.record()...)
		}
		records = append(records, &wire.Chunk{CPU: uint32(cpu * 200), Bin: bin})
	}
	for i := range 5 * cpus {
		want = append(want, i)
	}
	got, _ := outcome(t, encode(t, append(records, &wire.Round{T: 5 * cpus}, &wire.End{})...))
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

func FuzzChunk(f *testing.F) {
	f.Add(append(hitSpec{time: 5, addr: 0x1000}.record(), hitSpec{time: 4, slot: 9}.record()...), uint64(5))
	f.Add(perfRecord(perfabi.RecordFork, 0, pair(1, 1), pair(2, 1), 5, pair(1, 1), 5, sidebandID), uint64(1))
	f.Add(perfRecord(perfabi.RecordMmap2, perfabi.MiscMmapBuildID, pair(1, 1), 0x1000, 0x1000, 0, 4, 0, 0, 1, 0, pair(1, 1), 5, sidebandID), uint64(9))
	f.Add([]byte{9, 0, 0, 0, 0, 0, 255, 255}, uint64(0))
	f.Fuzz(func(t *testing.T, bin []byte, round uint64) {
		if len(bin) > wire.MaxChunk {
			return
		}
		stream := encode(t, append(append([]wire.Record{rawHeader()}, rawSources()...),
			&wire.Chunk{CPU: 3, Bin: bin}, &wire.Round{T: round}, &wire.End{})...)
		var out bytes.Buffer
		if err := Run(wire.NewReader(bytes.NewReader(stream)), wire.NewWriter(&out)); err != nil {
			t.Fatal(err)
		}
		n, r := 0, wire.NewReader(&out)
		for r.Next() {
			n++
			if m, ok := r.Record().(*wire.Malformed); ok && !bytes.HasPrefix(stream[m.Offset:], m.Bin) {
				t.Errorf("other bytes at %d", m.Offset)
			}
		}
		if r.Err() != nil {
			t.Fatal(r.Err())
		}
		if least := countRecords(bin) + 2; n < least { // names and code come on top
			t.Errorf("%d records, at least %d expected", n, least)
		}
	})
}

func FuzzRun(f *testing.F) {
	files := []string{"hits", "plain", "tasks", "chain", "order", "broken"}
	for _, file := range files {
		text, err := os.ReadFile("../../testdata/raw/" + file + ".txt")
		if err != nil {
			f.Fatal(err)
		}
		var out bytes.Buffer
		r, w := wire.NewReader(bytes.NewReader(text)), wire.NewWriter(&out)
		for r.Next() {
			if err := w.WriteRaw(r.Raw()); err != nil {
				f.Fatal(err)
			}
		}
		if err := w.Flush(); err != nil {
			f.Fatal(err)
		}
		f.Add(out.Bytes())
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var out bytes.Buffer
		err := Run(wire.NewReader(bytes.NewReader(in)), wire.NewWriter(&out))
		if out.Len() == 0 {
			if err == nil {
				t.Error("no output and no error")
			}
			return
		}
		r := wire.NewReader(&out)
		for r.Next() {
		}
		if r.Err() != nil && (err == nil || !errors.Is(r.Err(), wire.ErrTruncated)) {
			t.Errorf("the output: %v; error %v", r.Err(), err)
		}
	})
}
