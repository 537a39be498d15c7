package wire

import (
	"bytes"
	"reflect"
	"testing"
)

// session is a header's map with every key set.
func session() Session {
	return Session{
		Target: Target{PID: 1234, Exe: "/usr/bin/prog", Comm: "prog", Argv: []string{"prog", "a b"}, Bits: 64, NSID: 7},
		Scope:  "cpu", ScopeReason: "permitted", Values: "bpf", ValuesReason: "permitted", Kernel: "on",
		KernelReason: "permitted", StartNS: 1 << 40, RealtimeNS: 1 << 60, BootID: "d5c1", Threads: 4, Slots: 2,
		Regs: []string{"rax", "rbx"}, Callchain: true, LatencyNS: 10e6, RingSize: 1 << 20,
		Watches: []Watch{
			{ID: 0, Name: "counter", Place: "prog!counter", Addr: Some(0x601040), Len: 4, Access: "w", Role: "plain",
				Slots: []Slot{{0x601040, 4}}},
			{ID: 1, Name: "hp", Place: "prog!g->-0x10", Len: 8, Access: "rw", Role: "leaf", Chain: Some(0),
				Parent: Some(0), Offset: -16},
		},
		SampleFields: SampleFields(), Notes: []string{"a note"},
	}
}

// everyKind is one record of every kind, every field set to a value of its own.
func everyKind() []Record {
	return []Record{
		&Header{1, Events, session()},
		&Source{"breakpoint", Some(1), Some(2), 0x10087, 0x100, 0xff0fff, []byte{1, 0, 0, 0, 0, 0, 0, 0}},
		&Map{7, 0x400000, 0x401000, 0x1000, "/usr/bin/a prog", []byte{0xab, 0xcd}, 5},
		&Chunk{3, []byte{9, 0, 0, 0, 1, 0, 8, 0}},
		&Round{100},
		&Thread{7, 8, 99, "main"},
		&Bound{100, 1, 2, Some(0x601040), 22, Some(5), 90},
		&ControlRecord{100, "stale generation", []byte{0x93}},
		&Counts{100, 1, 10, 9, 1, 2, 3, 4},
		&Pause{1, 100, 200},
		&Check{100, 1, 0x601040, Some(7), Some(0x2a)},
		&Gap{100, "unwatched_task", Some(1), Some(9), Some(2), Some(50), Some(60), "vfork child"},
		&Note{100, "a \"note\"\n"},
		&Sample{100, 1, 7, 8, 0, 1, 0x601040, 0x400510, 1, Some(1<<64 - 1), bytes.Repeat([]byte{1, 2}, 64),
			[]uint64{0x400510, 0x400600}, Some(0x7f0000001000), Some(0), Some(0x2a)},
		&Lost{100, 1, 1 << 33},
		&Throttle{100, 1, Some(0), true},
		&Malformed{4096, 24, 16, "record cut", []byte{1, 2, 3}},
		&Other{30, 40},
		&Fork{100, 7, 7, 9, 8},
		&Exit{100, 7, 9},
		&Exec{100, 7, 7, "sh"},
		&Comm{100, 7, 9, "worker"},
		&Mmap{100, 7, 7, 0x400000, 0x1000, 0x2000, 5, 2, "/lib/libc.so.6", []byte{1}},
		&Code{0x400510, 0x400500, []byte{0x90, 0xc3}},
		&Rebind{100, 1, 2, Some(0x1000), Some(0x2000), 99},
		&Late{1, 5},
		&Bind{1, 2, 0x601040, 99},
		&Unbind{1, 3, 99},
		&Read{1, 4},
		&End{EndInfo{"duration", "", 200, 100, 5, "exit 3"}},
	}
}

// bare is one record of every kind with every optional field absent.
func bare() []Record {
	var list []Record
	for _, s := range Table() {
		r := s.New()
		if h, ok := r.(*Header); ok {
			h.Version, h.Stream = Version, Raw
		}
		list = append(list, r)
	}
	return list
}

func encodeAll(t testing.TB, records []Record) []byte {
	t.Helper()
	var out bytes.Buffer
	writeAll(t, NewWriter(&out), records)
	return out.Bytes()
}

func writeAll(t testing.TB, sink Sink, records []Record) {
	t.Helper()
	for _, r := range records {
		if err := sink.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := sink.Flush(); err != nil {
		t.Fatal(err)
	}
}

// decodeAll returns clones of all records and the reader's error.
func decodeAll(t testing.TB, stream []byte) ([]Record, error) {
	t.Helper()
	var list []Record
	r := NewReader(bytes.NewReader(stream))
	for r.Next() {
		c, err := Clone(r.Record())
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, c)
	}
	return list, r.Err()
}

func TestEveryKindIsInTheTable(t *testing.T) {
	table, records := Table(), everyKind()
	if len(records) != len(table) {
		t.Fatalf("%d records for %d kinds", len(records), len(table))
	}
	for i, s := range table {
		if got := records[i].Kind(); got != s.Kind {
			t.Errorf("record %d is %q, the table has %q", i, got, s.Kind)
		}
		if reflect.TypeOf(s.New()) != reflect.TypeOf(records[i]) {
			t.Errorf("%s: New makes a %T", s.Kind, s.New())
		}
	}
}

func TestRoundTrip(t *testing.T) {
	for name, records := range map[string][]Record{"full": everyKind(), "bare": bare()} {
		t.Run(name, func(t *testing.T) {
			stream := encodeAll(t, records)
			got, err := decodeAll(t, stream)
			if err != nil {
				t.Fatal(err)
			}
			compare(t, got, records)
			var text bytes.Buffer
			copyRaw(t, NewTextWriter(&text), stream)
			got, err = decodeAll(t, text.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			compare(t, got, records)
			var back bytes.Buffer
			copyRaw(t, NewWriter(&back), text.Bytes())
			if !bytes.Equal(back.Bytes(), stream) {
				t.Errorf("binary to text to binary differs:\n%x\n%x", stream, back.Bytes())
			}
		})
	}
}

func copyRaw(t testing.TB, sink Sink, stream []byte) {
	t.Helper()
	r := NewReader(bytes.NewReader(stream))
	for r.Next() {
		if err := sink.WriteRaw(r.Raw()); err != nil {
			t.Fatal(err)
		}
	}
	if r.Err() != nil {
		t.Fatal(r.Err())
	}
	if err := sink.Flush(); err != nil {
		t.Fatal(err)
	}
}

func compare(t *testing.T, got, want []Record) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
	for i := range want {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("%s:\n got %+v\nwant %+v", want[i].Kind(), got[i], want[i])
		}
	}
}
