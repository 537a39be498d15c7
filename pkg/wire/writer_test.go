package wire

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
)

// TestEncodingIsPlainMsgpack reads what was written with the library alone.
func TestEncodingIsPlainMsgpack(t *testing.T) {
	stream := encodeAll(t, everyKind())
	dec := msgpack.NewDecoder(bytes.NewReader(stream))
	for i, s := range Table() {
		v, err := dec.DecodeInterface()
		if err != nil {
			t.Fatalf("%s: %v", s.Kind, err)
		}
		array, ok := v.([]any)
		if !ok || len(array) != 1+len(s.Fields) || array[0] != s.Kind {
			t.Fatalf("record %d is %v, the table has %s with %d fields", i, v, s.Kind, len(s.Fields))
		}
		for j, f := range s.Fields {
			checkType(t, s.Kind, f, array[1+j])
		}
	}
	if _, err := dec.DecodeInterface(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last record: %v", err)
	}
}

func checkType(t *testing.T, kind string, f Field, v any) {
	t.Helper()
	ok := false
	switch f.Type {
	case Uint:
		switch v.(type) {
		case int8, uint8, uint16, uint32, uint64: // int8 is the library's form of numbers up to 127
			ok = true
		}
	case Bool:
		_, ok = v.(bool)
	case String:
		_, ok = v.(string)
	case Bin:
		_, ok = v.([]byte)
	case Uints:
		_, ok = v.([]any)
	case Doc:
		_, ok = v.(map[string]any)
	}
	if !ok {
		t.Errorf("%s: field %s is a %T, the table says %v", kind, f.Name, v, f.Type)
	}
}

// TestSampleBytes pins the bytes that the format promises.
func TestSampleBytes(t *testing.T) {
	s := &Sample{Time: 300, CPU: 1, PID: 70000, TID: 7, Addr: 0x601040, IP: 1 << 40, Generation: 1, Value: Some(0),
		Regs: []byte{1, 2}, Callchain: []uint64{1, 200}}
	want := "\xdc\x00\x10\xa6sample\xcd\x01\x2c\x01\xce\x00\x01\x11\x70\x07\x00\x01\xce\x00\x60\x10\x40" +
		"\xcf\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\xc4\x02\x01\x02\x92\x01\xcc\xc8\xc0\xc0\xc0"
	if got := encodeAll(t, []Record{s}); string(got) != want {
		t.Errorf("got  %x\nwant %x", got, want)
	}
}

// countingWriter notes the sizes of writes and fails after some.
type countingWriter struct {
	sizes []int
	limit int // writes that succeed
}

var errDisk = errors.New("disk full")

func (w *countingWriter) Write(p []byte) (int, error) {
	if len(w.sizes) == w.limit {
		return len(p) / 2, errDisk
	}
	w.sizes = append(w.sizes, len(p))
	return len(p), nil
}

func TestFlushIsOneWrite(t *testing.T) {
	out := &countingWriter{limit: 10}
	w := NewWriter(out)
	writeAll(t, w, []Record{&Bind{1, 2, 3, 4}, &Read{1, 2}})
	if len(out.sizes) != 1 {
		t.Errorf("two records went out in writes of %v bytes", out.sizes)
	}
	if err := w.Flush(); err != nil || len(out.sizes) != 1 {
		t.Errorf("an empty flush wrote: %v, %v", out.sizes, err)
	}
}

func TestWriterFlushesWholeRecords(t *testing.T) {
	out := &countingWriter{limit: 1 << 20}
	w := NewWriter(out)
	rec := hotSample()
	size := len(encodeAll(t, []Record{rec}))
	for range 2000 {
		if err := w.Write(rec); err != nil {
			t.Fatal(err)
		}
	}
	if len(out.sizes) < 2 {
		t.Fatalf("writes of %v bytes", out.sizes)
	}
	for _, n := range out.sizes {
		if n%size != 0 || n < bufferSize || n >= bufferSize+size {
			t.Errorf("a write of %d bytes, records are %d", n, size)
		}
	}
}

func TestFailedWriteSticks(t *testing.T) {
	for name, w := range map[string]Sink{
		"binary": NewWriter(&countingWriter{}),
		"text":   NewTextWriter(&countingWriter{}),
	} {
		if err := w.Write(&Round{1}); err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{w.Flush(), w.Write(&Round{2}), w.WriteRaw(pack(t, "round", 1)), w.Flush()} {
			if !errors.Is(err, errDisk) {
				t.Errorf("%s: got %v, want %v", name, err, errDisk)
			}
		}
	}
}

func TestRefusedRecordLeavesNothing(t *testing.T) {
	for _, test := range []struct {
		rec  Record
		want string
	}{
		{&Chunk{0, make([]byte, MaxChunk+1)}, "write stream: chunk: field bin: 65537 bytes, at most 65536 are allowed"},
		{&Code{Bin: make([]byte, MaxRecord)}, "write stream: code: longer than 1048576 bytes"},
		{&Sample{Callchain: make([]uint64, MaxItems+1)}, "field callchain: 16385 values, at most 16384"},
		{&Header{Session: Session{Notes: make([]string, MaxItems+1)}}, "write stream: xw: "},
		{&Unknown{"novelty"}, "write stream: novelty: unknown kind"},
	} {
		var out bytes.Buffer
		for name, w := range map[string]Sink{"binary": NewWriter(&out), "text": NewTextWriter(&out)} {
			if err := w.Write(test.rec); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: got %v, want %q", name, err, test.want)
			}
			if err := w.Flush(); err != nil || out.Len() > 0 {
				t.Errorf("%s: %d bytes of a refused record, %v", name, out.Len(), err)
			}
		}
	}
}

func TestStringsAreUTF8(t *testing.T) {
	stream := encodeAll(t, []Record{
		&Header{1, Events, Session{Target: Target{Argv: []string{"\xff"}, Comm: "\xe4"}, Notes: []string{"\xfe"},
			Watches: []Watch{{Name: "\xff"}}}},
		&Comm{1, 2, 3, "na\xc3"},
		&End{EndInfo{Error: "\xff"}},
	})
	got, err := decodeAll(t, stream)
	if err != nil {
		t.Fatal(err)
	}
	compare(t, got, []Record{
		&Header{1, Events, Session{Target: Target{Argv: []string{"\ufffd"}, Comm: "\ufffd"}, Notes: []string{"\ufffd"},
			Watches: []Watch{{Name: "\ufffd"}}}},
		&Comm{1, 2, 3, "na\ufffd"},
		&End{EndInfo{Error: "\ufffd"}},
	})
}

// TestListsAreNeverNil holds for filters in other languages: they go over a list without asking.
func TestListsAreNeverNil(t *testing.T) {
	stream := encodeAll(t, []Record{&Header{1, Raw, Session{Watches: []Watch{{}}}}})
	var array []any
	if err := msgpack.Unmarshal(stream, &array); err != nil {
		t.Fatal(err)
	}
	session := array[3].(map[string]any)
	watch := session["watches"].([]any)[0].(map[string]any)
	target := session["target"].(map[string]any)
	for name, list := range map[string]any{"regs": session["regs"], "notes": session["notes"],
		"sample_fields": session["sample_fields"], "slots": watch["slots"], "argv": target["argv"]} {
		if _, ok := list.([]any); !ok {
			t.Errorf("%s is %v", name, list)
		}
	}
	if watch["addr"] != nil || watch["chain"] != nil {
		t.Errorf("an unbound watch has addr %v, chain %v", watch["addr"], watch["chain"])
	}
}
