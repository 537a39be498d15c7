package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"xw/pkg/hwtest"
	"xw/pkg/wire"
)

// lives moves the pointer to new objects, with some stores to each, and checks that they are seen where they belong. It
// goes on with the run m, whose object is the present one.
func (m *moves) lives(p puppet, pipe *pipeline, n int) {
	for range n {
		object := p.alloc(0x80)
		m.moved = append(m.moved, p.point(1, p.anchor, object))
		pipe.bound(m.leaf, object+field, m.moved[len(m.moved)-1].from)
		m.write(p, object)
	}
}

// write stores to the present object.
func (m *moves) write(p puppet, object uint64) {
	first := uint64(len(m.writings)) << 8
	m.writings = append(m.writings, writing{object + field, counting(first, 5), p.do(0, "store %#x 4 %d 5", object+field, first)})
}

// TestRebindFirst: xw-rebind waits until xw-open has made the FIFO.
func TestRebindFirst(t *testing.T) {
	hwtest.Require(t)
	p := startPuppet(t, 2)
	object := p.list()[0]
	pipe := startPipeline(t, setup{first: true, args: []string{"--pid", p.pid(), "--watch", "hp=anchor->0x28:4"}})
	pipe.ready()
	m := moves{leaf: 1}
	m.write(p, object)
	m.lives(p, pipe, 5)
	m.check(pipe.stop())
}

// TestRebindLate: what happened before xw-rebind came is made up for, and told.
func TestRebindLate(t *testing.T) {
	hwtest.Require(t)
	p := startPuppet(t, 2)
	object := p.list()[0]
	pipe := startPipeline(t, setup{noRebind: true, args: []string{"--pid", p.pid(), "--watch", "hp=anchor->0x28:4"}})
	pipe.ready()
	p.do(0, "store %#x 4 1 2", object+field)
	var moved did
	for i := range 3 {
		object = p.alloc(0x80)
		d := p.point(1, p.anchor, object)
		p.do(0, "store %#x 4 1 2", object+field)
		if i == 0 {
			moved = d
		}
	}
	pipe.startRebind()
	pipe.stays(1, object+field)
	p.do(0, "store %#x 4 7 3", object+field)
	result := pipe.stop()
	result.counted()
	bindings := result.bindings(1)
	if last := bindings[len(bindings)-1]; last.Hits != 3 || len(result.samples(1)) != 5 {
		t.Errorf("%d hits of the leaf, %d on the last binding", len(result.samples(1)), last.Hits)
	}
	gaps := result.blind(1)
	if len(gaps) != 1 || result.Complete || *gaps[0].From < moved.from || *gaps[0].From > moved.to || *gaps[0].To < *bindings[len(bindings)-1].From {
		t.Errorf("complete %v, gaps %+v, moved first at %+v", result.Complete, result.Gaps, moved)
	}
}

// feed writes what a log has collected, and collects, to an xw-rebind of its own, whose output is not looked at.
func (p *pipeline) feed() *process {
	p.t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	in, inEnd := newPipe(p.t)
	rebind := p.newRebind(in, null)
	go func() {
		defer inEnd.Close()
		for from, ended := 0, false; !ended; time.Sleep(time.Millisecond) {
			select {
			case <-p.log.done:
				ended = true
			default:
			}
			p.log.mu.Lock()
			b := bytes.Clone(p.log.bytes.Bytes()[from:])
			p.log.mu.Unlock()
			from += len(b)
			if _, err := inEnd.Write(b); err != nil {
				return // it was killed
			}
		}
	}()
	return rebind
}

// TestRebindKilled: its death is a record, xw-open goes on with the last binding, and another one takes over.
func TestRebindKilled(t *testing.T) {
	hwtest.Require(t)
	p := startPuppet(t, 2)
	object := p.list()[0]
	pipe := startPipeline(t, setup{noRebind: true, args: []string{"--pid", p.pid(), "--watch", "hp=anchor->0x28:4"}})
	pipe.log = readEvents(pipe.decoded)
	pipe.ready()
	first := pipe.feed()
	move := func() did {
		object = p.alloc(0x80)
		return p.point(1, p.anchor, object)
	}
	store := func(object uint64) { p.do(0, "store %#x 4 1 3", object+field) }

	moved := move()
	pipe.bound(1, object+field, moved.from)
	store(object)
	first.signal(syscall.SIGKILL)
	first.ends(-1)
	pipe.refused("the writer of the control FIFO has gone")
	left := object
	lost := move()
	store(object) // not seen
	store(left)   // seen: the leaf stays where it was
	pipe.hits(1, 6)
	if b := pipe.binding(1); b.Addr != wire.Some(left+field) {
		t.Errorf("the leaf is at %#x, without anybody to move it, and was at %#x", b.Addr.V, left+field)
	}
	second := pipe.feed()
	found := pipe.bound(1, object+field, lost.to)
	store(object)
	moved = move()
	pipe.bound(1, object+field, moved.from)
	store(object)
	result := pipe.stop()
	second.ends(0)
	result.counted()
	if n := len(result.samples(1)); n != 12 {
		t.Errorf("%d hits of the leaf", n)
	}
	gaps := result.blind(1)
	if result.Complete || len(gaps) != 3 || *gaps[1].From < lost.from || *gaps[1].From > lost.to || *gaps[1].To != found.Time {
		t.Errorf("complete %v, gaps %+v; lost at %+v, found at %d", result.Complete, result.Gaps, lost, found.Time)
	}
}

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
	var stop atomic.Bool
	flooded := make(chan int)
	go func() {
		n := 0
		for garbage := bytes.Repeat([]byte{0x93, 0xa4, 'b', 'i', 'n', 'd'}, 100); !stop.Load(); {
			if i.write(garbage) {
				n++
			}
		}
		flooded <- n
	}()
	m := moves{leaf: 1}
	m.write(p, object)
	for range 5 {
		object = p.alloc(0x80)
		p.point(1, p.anchor, object)
		time.Sleep(100 * time.Millisecond)
	}
	stop.Store(true)
	n := <-flooded
	pipe.stays(1, object+field)
	hits := len(pipe.soFar().samples(1))
	p.do(0, "store %#x 4 1 4", object+field)
	pipe.hits(1, hits+4)
	result := pipe.stop()
	result.counted()
	refused := len(all[*wire.ControlRecord](result))
	if refused == 0 || refused > 1000 || n < 1000 {
		t.Errorf("%d pieces of garbage, %d records of them", n, refused)
	}
}

// soFar is what has been seen.
func (p *pipeline) soFar() *result {
	p.log.mu.Lock()
	defer p.log.mu.Unlock()
	return &result{t: p.t, events: append([]wire.Record(nil), p.log.events...)}
}

// TestStalledOutput: while nobody reads what xw-open writes, commands wait, and so does whoever sends them. A signal ends
// it all the same, without the end of the stream.
func TestStalledOutput(t *testing.T) {
	hwtest.Require(t)
	p := startPuppet(t, 3)
	object := p.list()[0]
	pipe := startPipeline(t, setup{noRebind: true, args: []string{"--pid", p.pid(), "--watch", "hp=anchor->0x28:4"}})
	pipe.ready()
	p.do(1, "chase %#x %#x", p.anchor, field)
	i := intrude(t, pipe.control)
	generation := uint64(2)
	eventually(t, "the FIFO is full", func() bool {
		generation++
		return !i.write(record(t, &wire.Bind{Watch: 1, Generation: generation, Addr: object + field}))
	})
	pipe.open.signal(syscall.SIGINT)
	pipe.open.ends(1)
	if said := pipe.open.messages(); !strings.Contains(said, "the reader of standard output does not read") {
		t.Errorf("xw-open said\n%s", said)
	}
	if added := p.do(1, "halt").result; added == 0 {
		t.Error("the program did not go on")
	}
	if _, err := os.Lstat(pipe.control); !os.IsNotExist(err) {
		t.Errorf("the FIFO is still there: %v", err)
	}
}

// TestStalledReport: the reader of xw-rebind stops to read while the pointer moves, then reads on.
func TestStalledReport(t *testing.T) {
	hwtest.Require(t)
	for _, test := range []struct {
		name  string
		again bool // the reader reads on before the end
	}{{"for a while", true}, {"to the end", false}} {
		t.Run(test.name, func(t *testing.T) {
			p := startPuppet(t, 3)
			object := p.list()[0]
			pipe := startPipeline(t, setup{noRebind: true, args: []string{"--pid", p.pid(), "--watch", "hp=anchor->0x28:4"}})
			events, eventsEnd := newPipe(t)
			pipe.rebind = pipe.newRebind(pipe.decoded, eventsEnd)
			pipe.ready()
			p.do(1, "chase %#x %#x", p.anchor, field)
			time.Sleep(500 * time.Millisecond) // all pipes and queues are full
			for range 20 {
				object = p.alloc(0x80)
				p.point(2, p.anchor, object)
			}
			p.do(1, "halt")
			if !test.again {
				pipe.open.signal(syscall.SIGINT)
				pipe.open.ends(1)
				pipe.log = readEvents(events)
				pipe.decode.ends(1)
				pipe.rebind.ends(1)
				return
			}
			pipe.log = readEvents(events)
			pipe.stays(1, object+field)
			before := len(pipe.soFar().samples(1))
			p.do(0, "store %#x 4 1 5", object+field)
			pipe.hits(1, before+5)
			result := pipe.stop()
			for _, c := range all[*wire.Counts](result) {
				if n := uint64(len(result.samples(c.Watch))); n+c.Lost+c.AfterStop != c.Counted {
					t.Errorf("watch %d: %d samples, %+v", c.Watch, n, c)
				}
			}
			if result.Complete || len(result.blind(1)) == 0 {
				t.Errorf("complete %v, gaps %+v", result.Complete, result.Gaps)
			}
		})
	}
}

// TestForeignFIFO: xw-open listens to no FIFO that others may write, and to nothing else.
func TestForeignFIFO(t *testing.T) {
	hwtest.Require(t)
	p := startPuppet(t, 1)
	p.list()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, mode := range map[string]os.FileMode{"fifo": 0o600, "open": 0o622} {
		if err := syscall.Mkfifo(at(name), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(at(name), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(at("file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(at("fifo"), at("link")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"file": "it exists and is no FIFO", "link": "it is a symbolic link", "open": "others may write to it (mode 0622): chmod go-w",
		"no/such": "no such file or directory",
	} {
		cmd := exec.Command(binary(t, "xw-open"), "--pid", p.pid(), "--watch", "hp=anchor->0x28:4", "--control", at(name))
		var said strings.Builder
		cmd.Stderr = &said
		out, err := cmd.Output()
		line := fmt.Sprintf("control FIFO: %q: %s\n", at(name), want)
		if err == nil || cmd.ProcessState.ExitCode() != 1 || len(out) > 0 || !strings.HasSuffix(said.String(), line) {
			t.Errorf("%s: %v, %d bytes, said\n%swant\n%s", name, err, len(out), &said, line)
		}
	}
}

// TestSudo: xw-open runs as root for a user, who runs xw-rebind.
func TestSudo(t *testing.T) {
	hwtest.Require(t)
	hwtest.RequireRoot(t)
	p := startPuppet(t, 2)
	object := p.list()[0]
	pipe := startPipeline(t, setup{env: []string{"SUDO_UID=65534"}, rebindUser: nobody(), args: []string{"--pid", p.pid(), "--watch", "hp=anchor->0x28:4"}})
	pipe.ready()
	m := moves{leaf: 1}
	m.write(p, object)
	m.lives(p, pipe, 5)
	m.check(pipe.stop())
}
