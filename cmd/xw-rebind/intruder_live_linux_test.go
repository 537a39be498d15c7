package main

import (
	"bytes"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"xw/pkg/hwtest"
	"xw/pkg/wire"
)

// intruder is another writer of the control FIFO.
type intruder struct {
	t  testing.TB
	fd int
}

func intrude(t testing.TB, path string) *intruder {
	t.Helper()
	fd, err := syscall.Open(path, syscall.O_WRONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	return &intruder{t, fd}
}

// write returns false if the FIFO is full.
func (i *intruder) write(b []byte) bool {
	_, err := syscall.Write(i.fd, b)
	if err != nil && err != syscall.EAGAIN {
		i.t.Errorf("write to the FIFO: %v", err)
	}
	return err == nil
}

func record(t testing.TB, r wire.Record) []byte {
	t.Helper()
	var b bytes.Buffer
	w := wire.NewWriter(&b)
	if err := w.Write(r); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestIntruder writes what xw-open must refuse, beside xw-rebind: each makes a record, and changes nothing.
func TestIntruder(t *testing.T) {
	hwtest.Require(t)
	p := startPuppet(t, 2)
	object := p.list()[0]
	pipe := startPipeline(t, setup{args: []string{"--pid", p.pid(), "--watch", "plain", "--watch", "hp=anchor->0x28:4"}})
	pipe.ready()
	m := moves{leaf: 2}
	m.write(p, object)
	m.lives(p, pipe, 3) // generation 4
	object = m.writings[3].addr - field
	elsewhere := p.alloc(0x80)
	i := intrude(t, pipe.control)
	bad := []struct {
		bytes  []byte
		reason string
	}{
		{[]byte("hello\n"), "malformed command"},
		{[]byte{0xdd, 0xff, 0xff, 0xff, 0xff, 1, 2, 3}, "malformed command"},
		{[]byte{0x95, 0xa4, 'b', 'i', 'n', 'd', 2, 9, 0xc6, 0x7f, 0xff, 0xff, 0xff}, "malformed command"},
		{[]byte{0x93, 0xa4, 'r', 'e', 'a', 'd', 0xa1, 'x', 1}, "malformed command"},
		{bytes.Repeat([]byte{0x91}, 300), "malformed command"},
		{record(t, &wire.Round{T: 1}), `"round" is no command`},
		{record(t, &wire.Header{Version: 1, Stream: wire.Raw}), "header of a stream of raw"},
		{record(t, &wire.Bind{Watch: 3, Generation: 99, Addr: elsewhere}), "watch 3 is out of range"},
		{record(t, &wire.Bind{Watch: 1 << 31, Generation: 99, Addr: elsewhere}), "is out of range"},
		{record(t, &wire.Bind{Watch: 0, Generation: 99, Addr: elsewhere}), "watch 0 is a plain watch"},
		{record(t, &wire.Bind{Watch: 1, Generation: 99, Addr: elsewhere}), "watch 1 is the top of its chain"},
		{record(t, &wire.Bind{Watch: 2, Generation: 4, Addr: elsewhere}), "stale: generation 4 of watch 2"},
		{record(t, &wire.Unbind{Watch: 2, Generation: 3}), "stale: generation 3 of watch 2"},
		{record(t, &wire.Bind{Watch: 2, Generation: 99, Addr: 0xffff888000001000}), "is not the process's"},
		{record(t, &wire.Bind{Watch: 2, Generation: 99, Addr: 0x7ffffffff000}), "is not the process's"},
		{record(t, &wire.Bind{Watch: 2, Generation: 99, Addr: elsewhere + 2}), "is not aligned"},
		{record(t, &wire.Bind{Watch: 2, Generation: 99, Addr: 0}), "null address"},
		{record(t, &wire.Read{Watch: 0, Generation: 1}), "watch 0 is no level of a chain"},
	}
	for n, b := range bad {
		if !i.write(b.bytes) {
			t.Fatal("the FIFO is full")
		}
		var refused []*wire.ControlRecord
		eventually(t, "refused: "+b.reason, func() bool {
			refused = all[*wire.ControlRecord](pipe.soFar())
			return len(refused) > n
		})
		if len(refused) != n+1 || !strings.Contains(refused[n].Reason, b.reason) || !bytes.HasPrefix(b.bytes, refused[n].Bin) {
			t.Fatalf("%x: refused %d times, the last time %x: %q", b.bytes, len(refused), refused[n].Bin, refused[n].Reason)
		}
	}
	p.do(0, "store %#x 4 1 3", elsewhere+field)
	p.do(0, "store %#x 4 1 2", p.plain)
	first := uint64(len(m.writings)) << 8
	m.writings[3].values = append(m.writings[3].values, counting(first, 2)...)
	m.writings[3].at.to = p.do(0, "store %#x 4 %d 2", object+field, first).to
	m.lives(p, pipe, 3)
	result := pipe.stop()
	result.counted()
	m.checkBindings(result)
	if n := len(result.samples(0)); n != 2 {
		t.Errorf("%d hits of the plain watch", n)
	}
	if got := result.gapsBut("blind"); len(got) < len(bad) || result.Complete {
		t.Errorf("%d refusals, %d gaps: %+v", len(bad), len(got), got)
	}
	for _, g := range result.gapsBut("blind", "control") {
		t.Errorf("gap %+v", g)
	}
}

// TestFlood has another process write garbage as fast as it can: the FIFO is always full. Nothing hangs, records do not
// flood the stream, and afterwards the chain is followed.
func TestFlood(t *testing.T) {
	hwtest.Require(t)
	p, object, pipe := followed(t, 2)
	i := intrude(t, pipe.control)
	begin := time.Now()
	var stop atomic.Bool
	var pieces atomic.Int64
	flooded := make(chan struct{})
	go func() {
		defer close(flooded)
		for garbage := bytes.Repeat([]byte{0x93, 0xa4, 'b', 'i', 'n', 'd'}, 100); !stop.Load(); {
			if i.write(garbage) {
				pieces.Add(1)
			}
		}
	}()
	m := moves{leaf: 1}
	m.write(p, object)
	for range 5 {
		object = p.alloc(0x80)
		p.point(1, p.anchor, object)
		time.Sleep(100 * time.Millisecond)
	}
	eventually(t, "much garbage is written", func() bool { return pieces.Load() >= 1000 })
	stop.Store(true)
	<-flooded
	pipe.stays(1, object+field)
	hits := len(pipe.soFar().samples(1))
	p.do(0, "store %#x 4 1 4", object+field)
	pipe.hits(1, hits+4)
	result := pipe.stop()
	result.counted()
	refused := len(all[*wire.ControlRecord](result))
	if limit := 100 * (1 + int(time.Since(begin)/time.Second)); refused == 0 || refused > limit {
		t.Errorf("%d pieces of garbage, %d records of them, at most %d are granted", pieces.Load(), refused, limit)
	}
}

// soFar is what has been seen.
func (p *pipeline) soFar() *result {
	p.log.mu.Lock()
	defer p.log.mu.Unlock()
	return &result{t: p.t, events: append([]wire.Record(nil), p.log.events...)}
}
