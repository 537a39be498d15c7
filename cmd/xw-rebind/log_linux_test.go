package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"xw/pkg/wire"
)

// eventLog collects an events stream as it comes.
type eventLog struct {
	mu      sync.Mutex // protects what follows
	events  []wire.Record
	bytes   bytes.Buffer
	err     error
	count   map[uint32]int         // hits by watch
	current map[uint32]*wire.Bound // newest binding by watch
	done    chan struct{}          // closed at the end of the stream
}

// readEvents reads a stream to its end.
func readEvents(f *os.File) *eventLog {
	l := &eventLog{count: map[uint32]int{}, current: map[uint32]*wire.Bound{}, done: make(chan struct{})}
	go func() {
		defer close(l.done)
		r := wire.NewReader(io.TeeReader(f, l))
		for r.Next() {
			l.add(kept(r.Record()))
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.err = cmp.Or(l.err, r.Err())
	}()
	return l
}

// kept copies a record; of a sample, of which there may be many, without its registers.
func kept(rec wire.Record) (wire.Record, error) {
	if s, ok := rec.(*wire.Sample); ok {
		c := *s
		c.Regs, c.Callchain = nil, nil
		return &c, nil
	}
	return wire.Clone(rec)
}

func (l *eventLog) add(rec wire.Record, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events, l.err = append(l.events, rec), cmp.Or(l.err, err)
	switch r := rec.(type) {
	case *wire.Sample:
		l.count[r.Watch]++
	case *wire.Bound:
		if b := l.current[r.Watch]; b == nil || r.Generation >= b.Generation {
			l.current[r.Watch] = r
		}
	}
}

// Write keeps the bytes of the stream.
func (l *eventLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes.Write(b)
}

// await waits for an event.
func await[T wire.Record](t testing.TB, l *eventLog, what string, fits func(T) bool) (found T) {
	t.Helper()
	next := 0
	eventually(t, what, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		for ; next < len(l.events); next++ {
			if r, is := l.events[next].(T); is && fits(r) {
				found = r
				return true
			}
		}
		return false
	})
	return found
}

// bound waits until a watch is armed at an address by a command that came after a time.
func (p *pipeline) bound(watch uint32, addr, since uint64) *wire.Bound {
	p.t.Helper()
	return await(p.t, p.log, fmt.Sprintf("watch %d is bound to %#x", watch, addr), func(b *wire.Bound) bool {
		return b.Watch == watch && b.Addr == wire.Some(addr) && b.Start >= since && b.Errno == 0
	})
}

// unbound waits until a watch is armed nowhere.
func (p *pipeline) unbound(watch uint32, since uint64) *wire.Bound {
	p.t.Helper()
	return await(p.t, p.log, fmt.Sprintf("watch %d is unbound", watch), func(b *wire.Bound) bool {
		return b.Watch == watch && !b.Addr.OK && b.Start >= since && b.Errno == 0
	})
}

// settled waits until the newest binding of a watch is at an address.
func (p *pipeline) settled(watch uint32, addr uint64) {
	p.t.Helper()
	eventually(p.t, fmt.Sprintf("watch %d is at %#x", watch, addr), func() bool {
		b := p.binding(watch)
		return b != nil && b.Addr == wire.Some(addr)
	})
}

// stays waits until a watch has been at an address for a while.
func (p *pipeline) stays(watch uint32, addr uint64) {
	p.t.Helper()
	var since time.Time
	var before *wire.Bound
	eventually(p.t, fmt.Sprintf("watch %d stays at %#x", watch, addr), func() bool {
		b := p.binding(watch)
		if b == nil || b != before || b.Addr != wire.Some(addr) {
			before, since = b, time.Now()
		}
		return time.Since(since) > 100*time.Millisecond
	})
}

func (p *pipeline) binding(watch uint32) *wire.Bound {
	p.log.mu.Lock()
	defer p.log.mu.Unlock()
	return p.log.current[watch]
}

// refused waits for the record of a refused command.
func (p *pipeline) refused(reason string) {
	p.t.Helper()
	await(p.t, p.log, "refused: "+reason, func(r *wire.ControlRecord) bool { return strings.Contains(r.Reason, reason) })
}

// hits waits until a watch has been hit so often.
func (p *pipeline) hits(watch uint32, n int) {
	p.t.Helper()
	eventually(p.t, fmt.Sprintf("%d hits of watch %d", n, watch), func() bool {
		return p.hitCount(watch) >= n
	})
}

// hitCount is how often a watch has been hit so far.
func (p *pipeline) hitCount(watch uint32) int {
	p.log.mu.Lock()
	defer p.log.mu.Unlock()
	return p.log.count[watch]
}

// hitsWithin waits for so many hits of a watch, and reports whether they came in time.
func (p *pipeline) hitsWithin(watch uint32, n int, d time.Duration) bool {
	for end := time.Now().Add(d); p.hitCount(watch) < n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}
