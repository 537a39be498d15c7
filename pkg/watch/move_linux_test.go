//go:build amd64

package watch_test

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"xw/pkg/hwtest"
	"xw/pkg/watch"
)

// TestMoveRefused asks for an address that the kernel refuses, first thing after the opening and once more: the old
// watch stays armed.
func TestMoveRefused(t *testing.T) {
	hwtest.Require(t)
	hwtest.RequireRoot(t)
	program := hwtest.BuildC(t, writers)
	for _, scope := range []string{"cpu", "inherit", "thread"} {
		target := hwtest.Start(t, program)
		addr := target.Uint("counter")
		s := open(t, target.PID, watch.Config{Slots: []watch.Slot{{Addr: addr, Len: 8, Access: "w"}}, Scope: scope, Values: "auto", Kernel: "auto"})
		const rounds, stores = 3, 7
		hits := 0
		for range rounds {
			if _, _, err := s.Move(0, addr+1); !errors.Is(err, unix.EINVAL) {
				t.Fatalf("%s: a move to an unaligned address: %v", scope, err)
			}
			target.Send("0 0 0 0 7")
			target.Line()
			hits += len(collect(t, s))
		}
		if hits != rounds*stores {
			t.Errorf("%s: %d stores after refused moves, %d hits", scope, rounds*stores, hits)
		}
		s.Close()
	}
}

// TestUnbound moves a slot to nowhere and back, also while it is paused.
func TestUnbound(t *testing.T) {
	hwtest.Require(t)
	hwtest.RequireRoot(t)
	program := hwtest.BuildC(t, writers)
	for _, scope := range []string{"cpu", "inherit", "thread"} {
		target := hwtest.Start(t, program)
		addr := target.Uint("counter")
		s := open(t, target.PID, watch.Config{Slots: []watch.Slot{{Len: 8, Access: "w"}}, Scope: scope, Values: "auto", Kernel: "auto"})
		move := func(to uint64) error {
			_, _, err := s.Move(0, to)
			return err
		}
		for _, step := range []struct {
			name string
			do   func() error
			hits int
		}{
			{"opened at no address", func() error { return nil }, 0},
			{"moved to the word", func() error { return move(addr) }, 7},
			{"paused", func() error { return s.Pause(0) }, 0},
			{"moved to nowhere while paused", func() error { return move(0) }, 0},
			{"resumed at nowhere", func() error { return s.Resume(0) }, 0},
			{"moved to the word", func() error { return move(addr) }, 7},
			{"moved to nowhere", func() error { return move(0) }, 0},
			{"paused at nowhere", func() error { return s.Pause(0) }, 0},
			{"moved to the word while paused", func() error { return move(addr) }, 0},
			{"resumed", func() error { return s.Resume(0) }, 7},
		} {
			if err := step.do(); err != nil {
				t.Fatalf("%s, %s: %v", scope, step.name, err)
			}
			target.Send("0 0 0 0 7")
			target.Line()
			if hits := len(collect(t, s)); hits != step.hits {
				t.Errorf("%s, %s: 7 stores, %d hits", scope, step.name, hits)
			}
		}
		s.Close()
	}
}
