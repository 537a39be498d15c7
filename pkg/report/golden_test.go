package report

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"xw/pkg/golden"
	"xw/pkg/wire"
)

// fakeSymbols names the addresses of the streams in testdata.
type fakeSymbols struct {
	maps int
}

func (f *fakeSymbols) Add(rec wire.Record) {
	if _, ok := rec.(*wire.Mmap); ok {
		f.maps++
	}
}

func (f *fakeSymbols) Place(addr, _ uint64) Place {
	p := Place{Inlined: []Inlined{}}
	if addr >= 0xffffffff81a00000 && addr < 0xffffffff81a00100 {
		p.Func, p.Offset, p.Module = "rep_movs_alternative", num(addr-0xffffffff81a00000), "[kernel]"
		return p
	}
	if f.maps == 0 || addr < 0x400000 || addr >= 0x402000 {
		p.Note = "no mapping known at this address"
		return p
	}
	if addr >= 0x401000 {
		p.Note = "no symbols"
	}
	p.Module, p.ModuleOffset = "sample", hex(addr-0x400000)
	for _, fn := range []struct {
		start, end uint64
		name       Text
		line       uint64
	}{{0x400500, 0x400520, "work", 10}, {0x400520, 0x400540, "tick", 20}, {0x400540, 0x400600, "ns::table<int>::fill", 30},
		{0x400600, 0x400700, "load", 40}, {0x400700, 0x400800, "main", 50}} {
		if addr >= fn.start && addr < fn.end {
			p.Func, p.Offset = fn.name, num(addr-fn.start)
			p.File, p.Line = "src/sample.c", num(fn.line)
		}
	}
	if p.Func == "tick" {
		p.Inlined = []Inlined{{Func: "set_hp", CallFile: "src/sample.c", CallLine: num(20)}}
		p.File, p.Line = "src/sample.h", num(3)
	}
	return p
}

// ReadCode has the code of work.
func (f *fakeSymbols) ReadCode(addr, _ uint64, p []byte) int {
	const start = 0x400500
	code := "\x0f\x1f\x84\x00\x00\x00\x00\x00\x0f\x1f\x40\x00\x55\x48\x89\xe5\x48\x83\xc0\x01\x48\x89\x07\x5d\xc3"
	if addr < start || addr >= start+uint64(len(code)) {
		return 0
	}
	return copy(p, code[addr-start:])
}

// read makes a model of a stream. Its error is that of the stream.
func read(t testing.TB, stream io.Reader, opts Options) (*Model, error) {
	t.Helper()
	r := wire.NewReader(stream)
	if !r.Next() {
		t.Fatal(r.Err())
	}
	m, err := New(r.Record().(*wire.Header), opts)
	if err != nil {
		t.Fatal(err)
	}
	for r.Next() {
		m.Add(r.Record())
	}
	m.Finish(r.Err())
	return m, r.Err()
}

func open(t testing.TB, name string) *os.File {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// TestGolden renders every stream of testdata in every format.
func TestGolden(t *testing.T) {
	streams, err := filepath.Glob("testdata/*.xw.txt")
	if err != nil || len(streams) == 0 {
		t.Fatal("no streams in testdata", err)
	}
	for _, stream := range streams {
		name := strings.TrimSuffix(filepath.Base(stream), ".xw.txt")
		t.Run(name, func(t *testing.T) {
			m, err := read(t, open(t, stream), Options{Symbols: &fakeSymbols{}})
			if truncated := errors.Is(err, wire.ErrTruncated); truncated != strings.HasPrefix(name, "truncated") {
				t.Errorf("reading ended with %v", err)
			}
			r := m.Report()
			for _, f := range []struct {
				format string
				render func(io.Writer) error
			}{
				{"text", func(w io.Writer) error {
					return TextReport(w, r, TextOptions{Top: 20, Callchain: m.session.Callchain})
				}},
				{"json", func(w io.Writer) error { return JSON(w, r) }},
				{"folded", func(w io.Writer) error { return Folded(w, r) }},
				{"html", func(w io.Writer) error { return HTMLReport(w, r, 20) }},
			} {
				var b bytes.Buffer
				if err := f.render(&b); err != nil {
					t.Fatal(err)
				}
				golden.Check(t, b.Bytes(), filepath.Join("testdata", name+"."+f.format))
			}
		})
	}
}

// TestGoldenJSONL writes one stream record by record.
func TestGoldenJSONL(t *testing.T) {
	for _, name := range []string{"kernel", "chain", "truncated", "hostile"} {
		r := wire.NewReader(open(t, "testdata/"+name+".xw.txt"))
		if !r.Next() {
			t.Fatal(r.Err())
		}
		var b bytes.Buffer
		j, err := NewJSONL(&b, r.Record().(*wire.Header))
		if err != nil {
			t.Fatal(err)
		}
		for r.Next() {
			if err := j.Write(r.Record()); err != nil {
				t.Fatal(err)
			}
		}
		if err := j.Flush(); err != nil {
			t.Fatal(err)
		}
		golden.Check(t, b.Bytes(), "testdata/"+name+".jsonl")
	}
}
