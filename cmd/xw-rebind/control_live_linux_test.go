package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

// flooded waits until so much has been added to a leaf that all pipes and queues are full if nobody reads.
func (p puppet) flooded(t *testing.T, leaf uint64) {
	t.Helper()
	eventually(t, "the leaf is flooded", func() bool { return p.do(0, "load %#x 4 1", leaf).result >= 100_000 })
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
	p.flooded(t, object+field)
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
			p.flooded(t, object+field)
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
