package wire

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
)

// FuzzBinary feeds any bytes to the Reader. What it accepts must survive every way of passing it on.
func FuzzBinary(f *testing.F) {
	f.Add(encodeAll(f, everyKind()))
	f.Add(encodeAll(f, bare()))
	for _, r := range everyKind() {
		f.Add(append(encodeAll(f, []Record{&Header{Version: 1, Stream: Events}}), encodeAll(f, []Record{r})...))
	}
	f.Fuzz(checkPassing)
}

// FuzzText does the same with lines of text.
func FuzzText(f *testing.F) {
	for _, records := range [][]Record{everyKind(), bare()} {
		var text bytes.Buffer
		writeAll(f, NewTextWriter(&text), records)
		f.Add(text.Bytes())
	}
	f.Add([]byte("xw version=1 stream=\"raw\" session={}\n# by hand\nchunk cpu=0 bin=u8:1,u16:2,u32:3,u64:0x4,s:\"a b\",zero:3,dead\n"))
	f.Add([]byte("xw version=1 stream=\"raw\" session={}\nunknown raw=92a17ac0\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		checkPassing(t, append([]byte(`xw version=1 stream="events" session={}`+"\n"), data...))
		checkPassing(t, data)
	})
}

// checkPassing reads a stream as far as it is good and requires of its records: writing and reading them again gives
// equal ones; the text twin gives the same bytes; the raw bytes are accounted for to the last one.
func checkPassing(t *testing.T, data []byte) {
	var records []Record
	var raws [][]byte
	r := NewReader(bytes.NewReader(data))
	for r.Next() {
		raws = append(raws, bytes.Clone(r.Raw()))
		c, err := Clone(r.Record())
		if err != nil {
			t.Fatalf("clone %v: %v", r.Record(), err)
		}
		records = append(records, c)
	}
	if !r.Ended() && r.Err() == nil {
		t.Fatal("no error and no end")
	}
	var format *FormatError
	if errors.As(r.Err(), &format) && (format.Offset < 0 || format.Offset > int64(len(data))) {
		t.Fatalf("%v is outside the %d bytes", format, len(data))
	}
	for i, rec := range records {
		checkAgain(t, rec, raws[i])
	}
	checkText(t, raws)
}

// checkAgain requires that a record reads back equal from its own encoding and, as text, from the raw bytes.
func checkAgain(t *testing.T, rec Record, raw []byte) {
	t.Helper()
	if _, unknown := rec.(*Unknown); unknown {
		return
	}
	e := newEncoder()
	if err := e.append(rec); err != nil {
		t.Fatalf("encode %v: %v", rec, err)
	}
	once := bytes.Clone(e.buf)
	again, err := newDecoder().decode(once)
	if err != nil {
		t.Fatalf("decode %x: %v", once, err)
	}
	e.buf = e.buf[:0]
	if err := e.append(again); err != nil || !bytes.Equal(e.buf, once) {
		t.Fatalf("%x became %x in two steps: %v", once, e.buf, err)
	}
	fromRaw, err := newDecoder().decode(raw)
	if err != nil {
		t.Fatalf("decode %x: %v", raw, err)
	}
	e.buf = e.buf[:0]
	if err := e.append(fromRaw); err != nil || !bytes.Equal(e.buf, once) {
		t.Fatalf("%x: read alone %x, in the stream %x: %v", raw, e.buf, once, err)
	}
}

// checkText requires that the text twin of the records reads back as the same bytes.
func checkText(t *testing.T, raws [][]byte) {
	t.Helper()
	var text bytes.Buffer
	w := NewTextWriter(&text)
	for _, raw := range raws {
		if err := w.WriteRaw(raw); err != nil {
			t.Fatalf("as text: %x: %v", raw, err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	r := NewReader(&text)
	for i, raw := range raws {
		if !r.Next() {
			t.Fatalf("record %d of the text twin: %v", i, r.Err())
		}
		if !bytes.Equal(r.Raw(), raw) {
			t.Fatalf("record %d: %x became %x through text", i, raw, r.Raw())
		}
	}
}

// FuzzFrame compares the end of a record that the scanner finds with the one that the library finds.
func FuzzFrame(f *testing.F) {
	for _, r := range everyKind() {
		f.Add(encodeAll(f, []Record{r}))
	}
	for _, v := range []any{-1, -200, -70000, int64(-1) << 40, 1.5, float32(1.5), uint64(1) << 63, 200, 70000, true, nil,
		strings.Repeat("x", 300), make([]byte, 70000), map[string]any{"a": []int{1, 2}}, make([]int, 20)} {
		f.Add(pack(f, "z", v))
	}
	for code := byte(0xc0); code <= 0xdf; code++ {
		f.Add(append([]byte{0x92, 0xa1, 'z', code}, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var s scanner
		whole, err := s.advance(data)
		if err != nil {
			return // a limit, or no array: the library has no such limits
		}
		rest := bytes.NewReader(data)
		libErr := msgpack.NewDecoder(rest).Skip()
		if whole != (libErr == nil) {
			t.Fatalf("%x: whole is %v, the library says %v", data, whole, libErr)
		}
		if whole && s.pos != len(data)-rest.Len() {
			t.Fatalf("%x: ends at %d, for the library at %d", data, s.pos, len(data)-rest.Len())
		}
		checkPieces(t, data, whole, s.pos)
	})
}

// checkPieces requires the same result when the bytes come one by one.
func checkPieces(t *testing.T, data []byte, whole bool, end int) {
	t.Helper()
	var s scanner
	got := false
	for n := 0; n <= len(data) && !got; n++ {
		var err error
		if got, err = s.advance(data[:n]); err != nil {
			t.Fatalf("%x: byte by byte: %v", data[:n], err)
		}
	}
	if got != whole || got && s.pos != end {
		t.Fatalf("%x: byte by byte it is %v to %d, else %v to %d", data, got, s.pos, whole, end)
	}
}
