package stage

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// grace is how long a Filter may still take after the second signal. It ends by itself long before that unless it sits
// in a write that its downstream does not take.
const grace = 200 * time.Millisecond

// signals makes SIGINT, SIGTERM and SIGHUP follow a rule.
type signals struct {
	rule   Rule
	cancel context.CancelCauseFunc

	arrived chan os.Signal
	pipe    chan os.Signal
	stopped chan struct{}
	atOnce  chan struct{} // closed when the command must end without further ado
	hurry   func()        // closes atOnce, once
}

// watchSignals starts to obey the rule. SIGINT and SIGHUP stay ignored if the command was started with them ignored
// (nohup, a background job of a script). Of other signals the Go runtime does not tell.
//
// SIGPIPE is caught so that a write to a closed standard output returns an error instead of killing the process. It is
// caught and not ignored because a child would inherit that.
func watchSignals(rule Rule, cancel context.CancelCauseFunc) *signals {
	s := &signals{
		rule: rule, cancel: cancel,
		arrived: make(chan os.Signal, 8),
		pipe:    make(chan os.Signal, 1),
		stopped: make(chan struct{}),
		atOnce:  make(chan struct{}),
	}
	s.hurry = sync.OnceFunc(func() { close(s.atOnce) })
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(sig) {
			signal.Notify(s.arrived, sig)
		}
	}
	if !signal.Ignored(syscall.SIGPIPE) {
		signal.Notify(s.pipe, syscall.SIGPIPE)
	}
	go s.obey()
	return s
}

// stop gives the signals their former meaning back.
func (s *signals) stop() {
	signal.Stop(s.arrived)
	signal.Stop(s.pipe)
	close(s.stopped)
}

func (s *signals) obey() {
	for n := 1; ; n++ {
		select {
		case sig := <-s.arrived:
			s.take(n, sig)
		case <-s.stopped:
			return
		}
	}
}

// take does what the n-th signal asks for.
func (s *signals) take(n int, sig os.Signal) {
	last := 2 // the signal that ends the context
	if s.rule == Source {
		last = 1
	}
	switch {
	case n == last:
		s.cancel(&SignalError{sig})
		if s.rule == Filter {
			time.AfterFunc(grace, s.hurry)
		}
	case n >= 3:
		s.hurry()
	}
}
