package report

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"xw/pkg/wire"
)

// readAll adds what is left of a stream.
func readAll(m *Model, r *wire.Reader) {
	for r.Next() || r.Recover() {
		if r.Record() != nil {
			m.Add(r.Record())
		}
	}
	m.Report() // as a live view does
	m.Finish(r.Err())
}

// FuzzReport: no stream, however wrong, breaks the model or a renderer, and none is complete without its end.
func FuzzReport(f *testing.F) {
	streams, err := filepath.Glob("testdata/*.xw.txt")
	if err != nil || len(streams) == 0 {
		f.Fatal("no streams in testdata", err)
	}
	for _, name := range streams {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(bytes.Replace(b, []byte(`"rax"`), []byte(`""`), 1))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		r := wire.NewReader(bytes.NewReader(stream))
		if !r.Next() {
			return
		}
		m, err := New(r.Record().(*wire.Header), Options{Symbols: &fakeSymbols{}})
		if err != nil {
			return
		}
		readAll(m, r)
		report := m.Report()
		if report.Complete && !r.Ended() {
			t.Error("complete without an end")
		}
		again := wire.NewReader(bytes.NewReader(stream))
		again.Next()
		next := again.Record().(*wire.Header)
		next.Session.StartNS = m.partEnd()
		if m.Continue(next) == nil {
			readAll(m, again)
			report = m.Report()
		}
		var b bytes.Buffer
		if err := JSON(&b, report); err != nil || !json.Valid(b.Bytes()) {
			t.Errorf("json: %v", err)
		}
		for _, err := range []error{TextReport(&b, report, TextOptions{Width: 40, Top: 3, Callchain: true, Color: true}),
			HTMLReport(&b, report, 0), Folded(&b, report), Pprof(&b, report)} {
			if err != nil {
				t.Error(err)
			}
		}
	})
}
