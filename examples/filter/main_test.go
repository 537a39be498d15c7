package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"xw/pkg/wire"
)

const (
	header = `xw version=1 stream="events" session={"start_ns":50,"regs":["rax"],"sample_fields":["time","cpu","pid","tid"]}
`
	comm = `comm time=60 pid=7 tid=8 comm="worker"
`
	head = header + comm
	tail = "unknown raw=92a8737572707269736500\n" +
		"counts time=900 watch=0 counted=6 emitted=6 lost=0 after_stop=0\nend info={\"stop_reason\":\"duration\"}\n"
)

// hit is a line of a sample with the fields that matter here.
func hit(time, tid, watch, addr int, value string) string {
	return fmt.Sprintf("sample time=%d cpu=0 pid=7 tid=%d watch=%d generation=1 addr=%d ip=0x400510 origin=0 value=%s regs=u64:5\n",
		time, tid, watch, addr, value)
}

// later appends a field that this version does not know to the last record of a binary stream, a sample.
func later(t *testing.T, stream []byte) []byte {
	t.Helper()
	kind := bytes.LastIndex(stream, []byte("\xa6sample"))
	if kind < 3 || !bytes.HasPrefix(stream[kind-3:], []byte("\xdc\x00")) {
		t.Fatal("no sample, an array with a length of two bytes")
	}
	out := append(bytes.Clone(stream), "\xa3new"...)
	out[kind-1]++
	return out
}

// binary encodes a text stream.
func binary(t *testing.T, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	recode(t, []byte(text), wire.NewWriter(&out))
	return out.Bytes()
}

// after encodes what follows the header.
func after(t *testing.T, rest string) []byte {
	t.Helper()
	return binary(t, header+rest)[len(binary(t, header)):]
}

// text writes a binary stream as text.
func text(t *testing.T, stream []byte) string {
	t.Helper()
	var out bytes.Buffer
	recode(t, stream, wire.NewTextWriter(&out))
	return out.String()
}

func recode(t *testing.T, stream []byte, to wire.Sink) {
	t.Helper()
	r := wire.NewReader(bytes.NewReader(stream))
	for r.Next() {
		if err := to.WriteRaw(r.Raw()); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Err(); err != nil && !errors.Is(err, wire.ErrTruncated) {
		t.Fatal(err)
	}
	if err := to.Flush(); err != nil {
		t.Fatal(err)
	}
}

const changesNote = `note time=50 text="samples that left the value as it was are filtered out"` + "\n"

func TestFilter(t *testing.T) {
	in := head + hit(100, 8, 0, 64, "1") + hit(110, 8, 0, 64, "1") + hit(120, 8, 0, 72, "1") + hit(130, 8, 1, 64, "1") +
		hit(140, 8, 0, 64, "nil") + hit(150, 9, 0, 64, "1") + hit(160, 9, 0, 64, "2") + hit(170, 9, 0, 64, "1") + tail
	left := comm + hit(100, 8, 0, 64, "1") + hit(120, 8, 0, 72, "1") + hit(130, 8, 1, 64, "1") + hit(140, 8, 0, 64, "nil") +
		hit(160, 9, 0, 64, "2") + hit(170, 9, 0, 64, "1") + tail
	for name, stream := range map[string][]byte{"binary": binary(t, in), "text": []byte(in)} {
		var out bytes.Buffer
		if err := filter(bytes.NewReader(stream), &out); err != nil {
			t.Fatal(err)
		}
		if got, want := text(t, out.Bytes()), text(t, binary(t, header+changesNote+left)); got != want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, want)
		}
	}
}

func TestFilterKeepsTheBytes(t *testing.T) {
	stream := later(t, binary(t, head+hit(100, 8, 0, 64, "1")))
	var out bytes.Buffer
	err := filter(bytes.NewReader(stream), &out)
	if !errors.Is(err, wire.ErrTruncated) {
		t.Errorf("without an end: %v", err)
	}
	want := append(binary(t, header+changesNote), stream[len(binary(t, header)):]...)
	if !bytes.Equal(out.Bytes(), want) {
		t.Errorf("\n got %x\nwant %x", out.Bytes(), want)
	}
}

func TestFilterRefusesOtherStreams(t *testing.T) {
	raw := binary(t, `xw version=1 stream="raw" session={}`+"\n")
	if err := filter(bytes.NewReader(raw), io.Discard); err == nil || !strings.Contains(err.Error(), "after xw-decode") {
		t.Errorf("got %v", err)
	}
}

// TestFilterDoesNotHoldBack gives one sample and waits for it before the stream goes on.
func TestFilterDoesNotHoldBack(t *testing.T) {
	in, feed := io.Pipe()
	out, result := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- filter(in, result)
		result.Close()
	}()
	start, rest := binary(t, head+hit(100, 8, 0, 64, "1")), after(t, tail)
	go feed.Write(start)
	r := wire.NewReader(out)
	for r.Next() {
		if _, ok := r.Record().(*wire.Sample); ok {
			break
		}
	}
	go func() {
		feed.Write(rest)
		feed.Close()
	}()
	for r.Next() {
	}
	if r.Err() != nil || <-done != nil {
		t.Error(r.Err())
	}
}
