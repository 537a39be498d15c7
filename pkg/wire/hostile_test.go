package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/vmihailenco/msgpack/v5"
)

// pack encodes values with the library, by its reflection and not by this package's code.
func pack(t testing.TB, values ...any) []byte {
	t.Helper()
	b, err := msgpack.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func header(t testing.TB) []byte {
	t.Helper()
	return pack(t, "xw", 1, Events, map[string]any{})
}

func TestEveryPrefixIsTruncated(t *testing.T) {
	records := everyKind()
	stream := encodeAll(t, records)
	ends := map[int]int{0: 0} // length of a prefix of whole records: their number
	for i := range records {
		ends[len(encodeAll(t, records[:i+1]))] = i + 1
	}
	whole := 0
	for n := range len(stream) {
		if count, ok := ends[n]; ok {
			whole = count
		}
		got, err := decodeAll(t, stream[:n])
		if len(got) != whole {
			t.Fatalf("%d bytes: %d records, want %d", n, len(got), whole)
		}
		if !errors.Is(err, ErrTruncated) {
			t.Fatalf("%d bytes: %v is not ErrTruncated", n, err)
		}
		if _, between := ends[n]; errors.Is(err, io.ErrUnexpectedEOF) == between {
			t.Fatalf("%d bytes, between two records %v: %v", n, between, err)
		}
	}
}

func TestTruncationIsPlaced(t *testing.T) {
	records := everyKind()
	stream := encodeAll(t, records[:4])
	before := len(encodeAll(t, records[:3]))
	_, err := decodeAll(t, stream[:len(stream)-1])
	var format *FormatError
	if !errors.As(err, &format) || format.Offset != int64(before) || format.Kind != "chunk" {
		t.Errorf("got %v, want a chunk at byte %d", err, before)
	}
}

func TestBadStreams(t *testing.T) {
	nested := append(bytes.Repeat([]byte{0x91}, MaxDepth), 0x91, 0xc0)
	huge := func(code ...byte) []byte { return append([]byte{0x92, 0xa1, 'z'}, code...) }
	for _, test := range []struct {
		name string
		data []byte // after the header
		want string
	}{
		{"array of 4 billion", []byte{0xdd, 0xff, 0xff, 0xff, 0xff}, "an array of 4294967295 values, at most 16384"},
		{"map of 4 billion", huge(0xdf, 0xff, 0xff, 0xff, 0xff), "a map of 8589934590 values, at most 16384"},
		{"string of 4 GiB", huge(0xdb, 0xff, 0xff, 0xff, 0xff), "longer than 1048576 bytes"},
		{"bin of 4 GiB", huge(0xc6, 0xff, 0xff, 0xff, 0xff), "longer than 1048576 bytes"},
		{"extension of 4 GiB", huge(0xc9, 0xff, 0xff, 0xff, 0xff), "longer than 1048576 bytes"},
		{"string of 2 MiB", huge(append([]byte{0xdb, 0, 0x20, 0, 0}, make([]byte, 2<<20)...)...), "longer than 1048576 bytes"},
		{"many short strings", manyStrings(), "longer than 1048576 bytes"},
		{"nested too deep", nested, "nested deeper than 8 levels"},
		{"unused code", []byte{0x92, 0xa1, 'z', 0xc1}, "byte 3 of it is 0xc1"},
		{"a number", []byte{7}, "expected an array that begins with a kind, found an unsigned integer"},
		{"an empty array", []byte{0x90}, "found an empty one"},
		{"kind is a number", []byte{0x91, 7}, "expected a string as the kind"},
		{"too few fields", pack(t, "sample", 1, 2), "sample at byte HERE: 2 fields, at least 9 expected"},
		{"a string for a number", pack(t, "round", "x"), "field t: expected an unsigned integer, found a string"},
		{"nil for a number", pack(t, "round", nil), "field t: expected an unsigned integer, found nil"},
		{"a negative number", pack(t, "round", -1), "field t: expected an unsigned integer, found a negative integer"},
		{"a float", pack(t, "round", 1.0), "field t: expected an unsigned integer, found a float"},
		{"beyond 32 bits", pack(t, "late", uint64(1)<<32, 1), "field cpu: 4294967296 does not fit in 32 bits"},
		{"a string for bytes", pack(t, "chunk", 1, "x"), "field bin: expected a byte string, found a string"},
		{"nil for bytes", pack(t, "chunk", 1, nil), "field bin: expected a byte string, found nil"},
		{"bytes for a string", pack(t, "note", 1, []byte{1}), "field text: expected a string, found a byte string"},
		{"a number for a boolean", pack(t, "throttle", 1, 1, nil, 1), "field on: expected a boolean"},
		{"a chunk too long", pack(t, "chunk", 1, make([]byte, MaxChunk+1)), "field bin: 65537 bytes, at most 65536"},
		{"a call chain of strings", pack(t, "sample", 1, 1, 1, 1, 1, 1, 1, 1, 0, nil, nil, []string{"x"}),
			"field callchain: element 0: expected an unsigned integer, found a string"},
		{"end without a map", pack(t, "end", 1), "field info: expected a map"},
		{"a map of the wrong types", pack(t, "end", map[string]any{"stop_reason": 5}), "field info:"},
		{"a second header", header(t), "a second header"},
		{"after the end", append(pack(t, "end", map[string]any{}), pack(t, "round", 1)...), "data after the end record"},
	} {
		t.Run(test.name, func(t *testing.T) {
			good := append(header(t), pack(t, "note", 1, "good")...)
			records, err := decodeAll(t, append(good, test.data...))
			want := strings.Replace(test.want, "HERE", fmt.Sprint(len(good)), 1)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Fatalf("got %v, want %q", err, want)
			}
			var format *FormatError
			if !errors.As(err, &format) || format.Offset < int64(len(good)) {
				t.Errorf("%v is not at byte %d or after it", err, len(good))
			}
			if len(records) < 2 {
				t.Errorf("%d records, the first two were good", len(records))
			}
		})
	}
}

// manyStrings is a record of permitted strings that are too long together.
func manyStrings() []byte {
	item := append([]byte{0xda, 0x80, 0}, make([]byte, 0x8000)...)
	return append([]byte{0xdc, 0, 41, 0xa1, 'z'}, bytes.Repeat(item, 40)...)
}

func TestBadHeaders(t *testing.T) {
	for name, test := range map[string]struct{ data, want string }{
		"empty":          {"", "truncated stream: the input is empty"},
		"a program":      {"\x7fELF\x02\x01\x01", "this is no xw stream: expected an array"},
		"prose":          {"hello world\n", "this is no xw stream: expected an array"},
		"other text":     {"xyz a=1\n", `this is no xw stream: unknown kind "xyz"`},
		"other msgpack":  {string(pack(t, "note", 1, "x")), "this is no xw stream: it does not begin with a header"},
		"numbers":        {string(pack(t, 1, 2, 3)), "this is no xw stream: expected a string as the kind"},
		"version 0":      {string(pack(t, "xw", 0, Events, map[string]any{})), "version 0, the first is 1"},
		"unknown stream": {string(pack(t, "xw", 1, "logs", map[string]any{})), `unknown stream "logs"`},
		"comments only":  {"# nothing\n\n", "truncated stream: no end record"},
		"text version 0": {`xw version=0 stream="raw" session={}`, "xw in line 1: this is no xw stream: version 0, the first is 1"},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewReader(strings.NewReader(test.data))
			if r.Next() {
				t.Fatalf("read %v", r.Record())
			}
			if r.Err() == nil || !strings.Contains(r.Err().Error(), test.want) {
				t.Errorf("got %v, want %q", r.Err(), test.want)
			}
			if r.Recover() {
				t.Error("recovered from a stream without a header")
			}
		})
	}
}

func TestLaterVersionsAreRead(t *testing.T) {
	stream := append(pack(t, "xw", 9, Events, map[string]any{"scope": "cpu", "news": []any{map[string]any{"a": 1}}}, "more"),
		pack(t, "sample", 1, 2, 3, 4, 5, 6, 7, 8, 1, nil, nil, nil, nil, nil, nil, "new", []int{1})...)
	stream = append(stream, pack(t, "novelty", 1.5, []any{nil, true, map[string]any{"k": []byte{1}}})...)
	stream = append(stream, pack(t, "counts", 100, 1, 10, 9, 1, 0)...) // without the fields added since
	stream = append(stream, pack(t, "end", map[string]any{"stop_reason": "duration"})...)
	records, err := decodeAll(t, stream)
	if err != nil {
		t.Fatal(err)
	}
	sample := &Sample{Time: 1, CPU: 2, PID: 3, TID: 4, Watch: 5, Generation: 6, Addr: 7, IP: 8, Origin: 1}
	compare(t, records, []Record{&Header{9, Events, Session{Scope: "cpu"}}, sample, &Unknown{"novelty"},
		&Counts{Time: 100, Watch: 1, Counted: 10, Emitted: 9, Lost: 1}, &End{EndInfo{StopReason: "duration"}}})

	var binary, text bytes.Buffer
	copyRaw(t, NewWriter(&binary), stream)
	if !bytes.Equal(binary.Bytes(), stream) {
		t.Errorf("passed on differently:\n%x\n%x", stream, binary.Bytes())
	}
	copyRaw(t, NewTextWriter(&text), stream)
	var back bytes.Buffer
	copyRaw(t, NewWriter(&back), text.Bytes())
	if !bytes.Equal(back.Bytes(), stream) {
		t.Errorf("binary to text to binary differs:\n%x\n%x\n%s", stream, back.Bytes(), text.Bytes())
	}
}

func TestReaderMemoryIsBounded(t *testing.T) {
	watches := append([]byte{0x94, 0xa2, 'x', 'w', 1, 0xa3, 'r', 'a', 'w', 0x81, 0xa7}, "watches"...)
	watches = append(watches, 0xdc, byte(MaxItems>>8), byte(MaxItems&0xff))
	for name, data := range map[string][]byte{
		"lengths without bytes": append(header(t), 0x92, 0xa1, 'z', 0xc6, 0, 0x0f, 0, 0),
		"a header of watches":   append(watches, bytes.Repeat([]byte{0x80}, MaxItems)...),
		"one endless record":    append(header(t), manyStrings()...),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for r := NewReader(bytes.NewReader(data)); r.Next(); {
		}
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 16<<20 {
			t.Errorf("%s: %d MiB allocated for %d bytes", name, used>>20, len(data))
		}
	}
}

func TestReadersOfAllManners(t *testing.T) {
	records := everyKind()
	var text bytes.Buffer
	writeAll(t, NewTextWriter(&text), records)
	for name, stream := range map[string][]byte{"binary": encodeAll(t, records), "text": text.Bytes()} {
		for manner, wrap := range map[string]func(io.Reader) io.Reader{
			"one byte":        iotest.OneByteReader,
			"half":            iotest.HalfReader,
			"error with data": iotest.DataErrReader,
		} {
			r := NewReader(wrap(bytes.NewReader(stream)))
			n := 0
			for r.Next() {
				n++
			}
			if r.Err() != nil || n != len(records) || !r.Ended() {
				t.Errorf("%s, %s: %d records of %d, %v", name, manner, n, len(records), r.Err())
			}
		}
		broken := errors.New("broken disk")
		r := NewReader(io.MultiReader(bytes.NewReader(stream[:len(stream)/2]), iotest.ErrReader(broken)))
		for r.Next() {
		}
		if !errors.Is(r.Err(), broken) || errors.Is(r.Err(), ErrTruncated) {
			t.Errorf("%s: read error became %v", name, r.Err())
		}
	}
}

func TestRecover(t *testing.T) {
	stream := append(header(t), pack(t, "bind", "x", 2, 3, 4)...)
	stream = append(stream, pack(t, "read", 1, 2)...)
	r := NewReader(bytes.NewReader(stream))
	if !r.Next() || r.Next() {
		t.Fatal("the bad bind was read")
	}
	if want := pack(t, "bind", "x", 2, 3, 4); !bytes.Equal(r.Raw(), want) {
		t.Errorf("raw bytes of the bad record: %x, want %x", r.Raw(), want)
	}
	if !r.Recover() || !r.Next() {
		t.Fatalf("did not go on: %v", r.Err())
	}
	if read, ok := r.Record().(*Read); !ok || read.Generation != 2 {
		t.Errorf("after the bad bind came %v", r.Record())
	}
	r = NewReader(bytes.NewReader(append(header(t), 0xc1)))
	if !r.Next() || r.Next() || r.Recover() {
		t.Error("recovered from bytes without a frame")
	}
	r = NewReader(strings.NewReader("xw version=1 stream=\"control\" session={}\nbind watch=x\nread watch=1 generation=2\n"))
	if !r.Next() || r.Next() || !r.Recover() || !r.Next() {
		t.Errorf("text: did not go on: %v", r.Err())
	}
}

func TestBuffered(t *testing.T) {
	records := everyKind()
	var text bytes.Buffer
	writeAll(t, NewTextWriter(&text), records[:3])
	for name, stream := range map[string][]byte{"binary": encodeAll(t, records[:3]), "text": text.Bytes()} {
		pipe, feed := io.Pipe()
		go func() {
			for _, cut := range [][]byte{stream[:len(stream)-3], stream[len(stream)-3:]} {
				if _, err := feed.Write(cut); err != nil {
					return
				}
			}
		}()
		r := NewReader(pipe)
		if r.Buffered() != 0 {
			t.Errorf("%s: %d bytes buffered before the first Next", name, r.Buffered())
		}
		r.Next()
		if r.Buffered() == 0 {
			t.Errorf("%s: nothing buffered, though the second record is whole", name)
		}
		r.Next()
		if r.Buffered() != 0 {
			t.Errorf("%s: %d bytes buffered of a record that is cut", name, r.Buffered())
		}
		if !r.Next() || r.Buffered() != 0 {
			t.Errorf("%s: third record: %v, %d buffered", name, r.Err(), r.Buffered())
		}
		pipe.Close()
	}
}

func TestOffsetAndRaw(t *testing.T) {
	records := everyKind()
	stream := encodeAll(t, records)
	r := NewReader(iotest.HalfReader(bytes.NewReader(stream)))
	at := int64(0)
	for r.Next() {
		if r.Offset() != at {
			t.Errorf("%s at %d, want %d", r.Record().Kind(), r.Offset(), at)
		}
		if !bytes.Equal(r.Raw(), stream[at:at+int64(len(r.Raw()))]) {
			t.Errorf("%s: raw bytes differ", r.Record().Kind())
		}
		at += int64(len(r.Raw()))
	}
	if at != int64(len(stream)) {
		t.Errorf("%d bytes of %d", at, len(stream))
	}
}

func TestParser(t *testing.T) {
	var p Parser
	bind := pack(t, "bind", 1, 2, 3, 4)
	b := append(bytes.Clone(bind), pack(t, "read", 1, 2)...)
	rec, n, err := p.Parse(b)
	if err != nil || n != len(bind) {
		t.Fatalf("%v, %d bytes, %v", rec, n, err)
	}
	compare(t, []Record{rec}, []Record{&Bind{1, 2, 3, 4}})
	note, _, err := p.Parse(encodeAll(t, []Record{&ControlRecord{1, "x", []byte{7}}}))
	if err != nil {
		t.Fatal(err)
	}
	compare(t, []Record{note}, []Record{&ControlRecord{1, "x", []byte{7}}})
	for n := range bind {
		if _, _, err := p.Parse(bind[:n]); !errors.Is(err, ErrTruncated) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	for _, bad := range [][]byte{{0xc1}, pack(t, "bind", "x", 2, 3, 4), bytes.Repeat([]byte{0x91}, 20)} {
		if rec, _, err := p.Parse(bad); err == nil {
			t.Errorf("%x is %v", bad, rec)
		}
	}
}

// TestHeaderIsKept requires that nothing that comes later changes the header that a reader has kept.
func TestHeaderIsKept(t *testing.T) {
	stream := encodeAll(t, []Record{&Header{1, Events, session()}, &Note{1, "x"}, &Header{2, Raw, Session{Scope: "thread"}}})
	r := NewReader(bytes.NewReader(stream))
	r.Next()
	kept := r.Record()
	for r.Next() {
	}
	compare(t, []Record{kept}, []Record{&Header{1, Events, session()}})
}

func TestNothingIsRecoveredAfterTheEnd(t *testing.T) {
	r := NewReader(bytes.NewReader(append(append(header(t), pack(t, "end", map[string]any{})...), pack(t, "round", 1)...)))
	for r.Next() {
	}
	if !r.Ended() || r.Err() == nil || r.Recover() {
		t.Errorf("ended %v, %v", r.Ended(), r.Err())
	}
}
