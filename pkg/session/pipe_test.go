package session

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
)

// sink is a reader that takes what it has room for.
type sink struct {
	mu   sync.Mutex
	got  bytes.Buffer
	room int           // bytes that it takes at once
	gate chan struct{} // waited for before each write that may block
	now  int           // writes that were done at once
}

func (s *sink) write(b []byte) (int, error) {
	<-s.gate
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got.Write(b)
}

func (s *sink) writeNow(b []byte) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(b) > s.room {
		return false, nil
	}
	s.room -= len(b)
	s.now++
	s.got.Write(b)
	return true, nil
}

func (s *sink) setRoom(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.room = n
}

// TestPipeKeepsTheOrder: what is written at once does not overtake what waits for the goroutine.
func TestPipeKeepsTheOrder(t *testing.T) {
	s := &sink{room: 20, gate: make(chan struct{}, 1000)}
	p := newPipe(make(chan struct{}), s.write, s.writeNow, func() {})
	var want string
	put := func(text string) {
		want += text
		if n, err := p.Write([]byte(text)); n != len(text) || err != nil {
			t.Errorf("%q: %d, %v", text, n, err)
		}
	}
	put("at once ")
	put("too long for the room that is left ")
	s.setRoom(1000)
	put("waits behind it ") // the goroutine stands at the gate
	for range 2 {
		s.gate <- struct{}{}
	}
	for end := time.Now().Add(10 * time.Second); p.open.Load() > 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	put("at once again ")
	for i := range 100 {
		s.setRoom(1000 * (i % 2))
		s.gate <- struct{}{}
		put(fmt.Sprint(i, " "))
	}
	if err := p.close(); err != nil {
		t.Error(err)
	}
	if got := s.got.String(); got != want || s.now < 2 {
		t.Errorf("%d writes at once, got %q, want %q", s.now, got, want)
	}
	if p.written() != uint64(len(want)) {
		t.Errorf("%d bytes counted, %d written", p.written(), len(want))
	}
}

// TestPipeFails: an error of either way of writing is that of all later calls.
func TestPipeFails(t *testing.T) {
	broken := errors.New("broken")
	failed := make(chan struct{})
	p := newPipe(make(chan struct{}), func([]byte) (int, error) { return 0, broken }, nil, func() { close(failed) })
	if _, err := p.Write([]byte("x")); err != nil {
		t.Errorf("a write that waits: %v", err)
	}
	<-failed
	if _, err := p.Write([]byte("x")); err != broken || p.failure() != broken || p.close() != broken {
		t.Errorf("%v, %v", err, p.failure())
	}

	p = newPipe(make(chan struct{}), nil, func([]byte) (bool, error) { return false, broken }, nil)
	if _, err := p.Write([]byte("x")); err != broken || p.failure() != broken || p.close() != broken {
		t.Errorf("at once: %v, %v", err, p.failure())
	}
}

// TestPipeGivesUp: a reader that does not read holds up the end no longer than the limit.
func TestPipeGivesUp(t *testing.T) {
	stop := make(chan struct{})
	p := newPipe(stop, func([]byte) (int, error) { select {} }, nil, func() {})
	close(stop)
	var err error
	for range 2 * queueBlocks {
		if _, err = p.Write([]byte("x")); err != nil {
			break
		}
	}
	if !errors.Is(err, ErrNoEnd) || !errors.Is(p.close(), ErrNoEnd) {
		t.Errorf("error %v", err)
	}
}
