package rebind

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"

	"xw/pkg/wire"
)

// chainHeader is the header of a stream with a pointer at 0x1000, the watch 0, and a leaf 0x10 behind it, the watch 1.
func chainHeader() *wire.Header {
	return &wire.Header{Version: wire.Version, Stream: wire.Events, Session: wire.Session{
		Target: wire.Target{Bits: 64},
		Watches: []wire.Watch{
			{Name: "p", Addr: wire.Some(0x1000), Len: 8, Role: "pointer", Chain: wire.Some(0)},
			{ID: 1, Name: "leaf", Addr: wire.Some(0x2010), Len: 8, Role: "leaf", Chain: wire.Some(0), Parent: wire.Some(0), Offset: 0x10},
		},
	}}
}

const ms = 1_000_000

func boundAt(time uint64, watch uint32, gen, addr uint64, value wire.Opt) *wire.Bound {
	return &wire.Bound{Time: time, Watch: watch, Generation: gen, Addr: wire.Some(addr), Value: value, Start: time - 1000}
}

// storeAt is a store to the pointer.
func storeAt(time, value uint64) *wire.Sample {
	return &wire.Sample{Time: time, Generation: 1, Addr: 0x1000, Value: wire.Some(value)}
}

func endAt(time uint64) *wire.End { return &wire.End{Info: wire.EndInfo{EndNS: time}} }

// chainStart is the chain as it was armed.
func chainStart() []wire.Record {
	return []wire.Record{chainHeader(), boundAt(ms, 0, 1, 0x1000, wire.Some(0x2000)), boundAt(ms+10, 1, 1, 0x2010, wire.Opt{})}
}

func encodeAll(t testing.TB, records ...wire.Record) []byte {
	t.Helper()
	var all []byte
	for _, r := range records {
		b, err := newEncoder().encode(r)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b...)
	}
	return all
}

// writes keeps each write apart.
type writes struct {
	list [][]byte
	err  error // what all writes after the first good ones return
	good int
}

func (w *writes) Write(p []byte) (int, error) {
	if w.err != nil && len(w.list) >= w.good {
		return 0, w.err
	}
	w.list = append(w.list, bytes.Clone(p))
	return len(p), nil
}

func TestControlIsWrittenCommandByCommand(t *testing.T) {
	stream := encodeAll(t, append(chainStart(), storeAt(10*ms, 0x4000), boundAt(11*ms, 1, 2, 0x4010, wire.Opt{}),
		storeAt(20*ms, 0), &wire.Bound{Time: 21 * ms, Watch: 1, Generation: 3, Start: 20 * ms}, endAt(30*ms))...)
	var control writes
	if err := Run(wire.NewReader(bytes.NewReader(stream)), wire.NewWriter(io.Discard), &control, Options{}); err != nil {
		t.Fatal(err)
	}
	want := [][]byte{
		encodeAll(t, &wire.Header{Version: wire.Version, Stream: wire.Control}),
		encodeAll(t, &wire.Bind{Watch: 1, Generation: 2, Addr: 0x4010, CauseTime: 10 * ms}),
		encodeAll(t, &wire.Unbind{Watch: 1, Generation: 3, CauseTime: 20 * ms}),
	}
	if len(control.list) != len(want) {
		t.Fatalf("%d writes, want %d", len(control.list), len(want))
	}
	for i := range want {
		if !bytes.Equal(control.list[i], want[i]) || len(want[i]) > pipeBuf {
			t.Errorf("write %d is %x, want %x", i, control.list[i], want[i])
		}
	}
}

// TestPassesOnUntouched puts a kind and a field that this version does not know into a stream.
func TestPassesOnUntouched(t *testing.T) {
	unknown := []byte("\x93\xa6future\x01\xc0")
	longer := encodeAll(t, &wire.Exit{Time: 5 * ms, PID: 1, TID: 2})
	longer[0]++ // the number of elements
	longer = append(longer, "\xa3new"...)
	stream := bytes.Join([][]byte{encodeAll(t, chainStart()...), unknown, longer, encodeAll(t, endAt(9*ms))}, nil)
	var out bytes.Buffer
	if err := Run(wire.NewReader(bytes.NewReader(stream)), wire.NewWriter(&out), &writes{}, Options{}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out.Bytes(), stream) {
		t.Errorf("passed on\n%x, want\n%x", out.Bytes(), stream)
	}
}

// TestControlFails lets the FIFO's reader go, at once or after the first command: everything is still passed on, and the
// data and the result say that the chain was not followed.
func TestControlFails(t *testing.T) {
	for _, test := range []struct {
		good  int // writes that work
		cause error
	}{{0, syscall.EPIPE}, {1, syscall.EPIPE}, {2, syscall.EAGAIN}} {
		records := append(chainStart(), storeAt(10*ms, 0x4000), storeAt(20*ms, 0x5000))
		if test.good == 2 {
			records = append(records, boundAt(21*ms, 1, 2, 0x4010, wire.Opt{}))
		}
		records = append(records, storeAt(30*ms, 0x6000), &wire.Comm{Time: 5000 * ms}, endAt(5000*ms))
		stream := encodeAll(t, records...)
		var out bytes.Buffer
		var said []string
		err := Run(wire.NewReader(bytes.NewReader(stream)), wire.NewWriter(&out), &writes{good: test.good, err: test.cause},
			Options{Say: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }})
		if !errors.Is(err, test.cause) {
			t.Errorf("good %d: error %v, want %v", test.good, err, test.cause)
		}
		if len(said) != 1 || !strings.Contains(said[0], "leaf is no longer followed") {
			t.Errorf("good %d: said %q", test.good, said)
		}
		gaps, passed := 0, 0
		in := wire.NewReader(&out)
		for in.Next() {
			switch r := in.Record().(type) {
			case *wire.Gap:
				gaps++
				from := uint64(10 * ms)
				if test.good == 2 {
					from = 20 * ms
				}
				if r.Reason != control || r.Watch != wire.Some(1) || r.From != wire.Some(from) || r.To.OK {
					t.Errorf("good %d: gap %+v", test.good, r)
				}
			case *wire.Rebind:
			default:
				passed++
			}
		}
		if gaps != 1 || passed != len(records) || in.Err() != nil {
			t.Errorf("good %d: %d gaps, %d of %d records, %v", test.good, gaps, passed, len(records), in.Err())
		}
	}
}

// TestControlGoneAtTheEnd is what an orderly stop looks like: xw-open has gone while its last records are still read.
func TestControlGoneAtTheEnd(t *testing.T) {
	stream := encodeAll(t, append(chainStart(), storeAt(1000*ms, 0x4000), endAt(1001*ms))...)
	var out bytes.Buffer
	err := Run(wire.NewReader(bytes.NewReader(stream)), wire.NewWriter(&out), &writes{err: syscall.EPIPE},
		Options{Say: func(format string, args ...any) { t.Errorf(format, args...) }})
	if err != nil {
		t.Error(err)
	}
	in := wire.NewReader(&out)
	var last wire.Gap
	for in.Next() {
		if g, ok := in.Record().(*wire.Gap); ok {
			last = *g
		}
	}
	if last.Reason != blind || last.From != wire.Some(1000*ms) || last.To != wire.Some(1001*ms) {
		t.Errorf("gap %+v", last)
	}
}

// TestMalformedRecord puts a record with a field of the wrong type into a stream: what follows is passed on.
func TestMalformedRecord(t *testing.T) {
	bad := []byte("\x94\xa4lost\xa1x\x00\x01")
	stream := bytes.Join([][]byte{encodeAll(t, chainStart()...), bad, encodeAll(t, storeAt(5*ms, 0x4000), endAt(6*ms))}, nil)
	var out bytes.Buffer
	err := Run(wire.NewReader(bytes.NewReader(stream)), wire.NewWriter(&out), &writes{}, Options{})
	var format *wire.FormatError
	if !errors.As(err, &format) || format.Kind != "lost" {
		t.Errorf("error %v", err)
	}
	var kinds []string
	in := wire.NewReader(&out)
	for in.Next() {
		kinds = append(kinds, in.Record().Kind())
		if m, ok := in.Record().(*wire.Malformed); ok && !bytes.Equal(m.Bin, bad) {
			t.Errorf("kept %x", m.Bin)
		}
	}
	if want := "xw bound bound malformed sample gap end"; strings.Join(kinds, " ") != want || in.Err() != nil {
		t.Errorf("passed on %q, want %q, %v", kinds, want, in.Err())
	}
}

// TestIdleInputIsFlushed wants each record at the far end before the next one is written.
func TestIdleInputIsFlushed(t *testing.T) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- Run(wire.NewReader(inR), wire.NewWriter(outW), &writes{}, Options{}) }()
	out := wire.NewReader(outR)
	for _, r := range append(chainStart(), storeAt(5*ms, 0x4000), boundAt(6*ms, 1, 2, 0x4010, wire.Opt{})) {
		if _, err := inW.Write(encodeAll(t, r)); err != nil {
			t.Fatal(err)
		}
		if !out.Next() || out.Record().Kind() != r.Kind() {
			t.Fatalf("%s does not come through: %v", r.Kind(), out.Err())
		}
	}
	if !out.Next() || out.Record().Kind() != "rebind" {
		t.Fatalf("no rebind record comes through: %v", out.Err())
	}
	go inW.Write(encodeAll(t, endAt(7*ms)))
	if !out.Next() || !out.Ended() {
		t.Error(out.Err())
	}
	inW.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestOutputFails(t *testing.T) {
	full := errors.New("disk full")
	stream := encodeAll(t, append(chainStart(), endAt(2*ms))...)
	err := Run(wire.NewReader(bytes.NewReader(stream)), wire.NewWriter(&writes{err: full}), &writes{}, Options{})
	if !errors.Is(err, full) {
		t.Error(err)
	}
}

func TestOtherStreamsAreRefused(t *testing.T) {
	stream := encodeAll(t, &wire.Header{Version: wire.Version, Stream: wire.Raw})
	err := Run(wire.NewReader(bytes.NewReader(stream)), wire.NewWriter(io.Discard), &writes{}, Options{})
	var hint interface{ Hint() string }
	if !errors.As(err, &hint) || !strings.Contains(hint.Hint(), "xw-decode") {
		t.Error(err)
	}
	if err := Run(wire.NewReader(strings.NewReader("")), wire.NewWriter(io.Discard), &writes{}, Options{}); !errors.Is(err, wire.ErrTruncated) {
		t.Error(err)
	}
}
