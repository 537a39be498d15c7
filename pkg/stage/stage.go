package stage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// Stage is what a command works with while it runs.
type Stage struct {
	*Messages
	// Stdin is standard input; a read of it returns context.Cause(ctx) when ctx is done.
	Stdin io.Reader
	// Stdout is standard output, unbuffered; a write to it returns ErrDownstreamClosed when its reader has gone.
	Stdout io.Writer

	ctx     context.Context
	cancel  context.CancelCauseFunc
	stdin   io.Reader
	stdout  io.Writer
	stderr  io.Writer
	closing []func()
}

// WriteNow returns a function that writes to standard output what its reader has room for at this moment: all of it, and
// done is true, or nothing. So the write cannot block. nil is returned where that cannot be had: where standard output is
// no pipe, on other systems than Linux, or of another kernel.
func (s *Stage) WriteNow() func(p []byte) (done bool, err error) {
	f, ok := s.stdout.(*os.File)
	if !ok || !canWriteNow(f) {
		return nil
	}
	return func(p []byte) (bool, error) {
		n, err := writeNow(f, p)
		if err != nil {
			_, err = s.Stdout.(*downstream).outcome(0, err)
		}
		return n > 0, err
	}
}

func newStage(ctx context.Context, cancel context.CancelCauseFunc, stdin io.Reader, stdout, stderr io.Writer,
	messages *Messages) *Stage {
	s := &Stage{Messages: messages, ctx: ctx, cancel: cancel, stdin: stdin, stdout: stdout, stderr: stderr}
	s.Stdin = s.Interruptible(stdin)
	s.Stdout = &downstream{w: stdout, cancel: cancel}
	return s
}

func (s *Stage) close() {
	for _, f := range s.closing {
		f()
	}
}

// BinaryOut refuses to write a stream to a terminal. hint is what to type instead.
func (s *Stage) BinaryOut(hint string) error {
	if !isTerminal(s.stdout) {
		return nil
	}
	return WithHint(Usagef("standard output is a terminal, and the stream is binary"), "%s", hint)
}

// BinaryIn refuses to read a stream from a terminal. hint is what to type instead.
func (s *Stage) BinaryIn(hint string) error {
	if !isTerminal(s.stdin) {
		return nil
	}
	return WithHint(Usagef("standard input is a terminal, and a stream is expected"), "%s", hint)
}

// StdoutIsTerminal tells whether a person reads standard output.
func (s *Stage) StdoutIsTerminal() bool { return isTerminal(s.stdout) }

// StderrIsTerminal tells whether a person reads standard error.
func (s *Stage) StderrIsTerminal() bool { return isTerminal(s.stderr) }

// Width is the width of standard output in columns; 0 if it is no terminal or does not know.
func (s *Stage) Width() int {
	width, _ := terminalSize(s.stdout)
	return width
}

// Height is the height of standard output in lines; 0 if it is no terminal or does not know.
func (s *Stage) Height() int {
	_, height := terminalSize(s.stdout)
	return height
}

// Color decides whether to write colours to standard output. mode is always, never, or auto: in a terminal, unless
// NO_COLOR is set or TERM is dumb.
func (s *Stage) Color(mode string) bool {
	switch mode {
	case "always":
		return true
	case "never":
		return false
	}
	return s.StdoutIsTerminal() && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// WatchDownstream ends the context with ErrDownstreamClosed as soon as the reader of standard output has gone, without
// a write that would show it. Only for commands whose result goes to standard output. On other systems than Linux only
// a write shows it.
func (s *Stage) WatchDownstream() error {
	f, ok := s.stdout.(*os.File)
	if !ok {
		return nil
	}
	stop, err := whenReaderGone(f, func() { s.cancel(ErrDownstreamClosed) })
	if err != nil {
		return fmt.Errorf("watch standard output: %w", err)
	}
	s.closing = append(s.closing, stop)
	return nil
}

// downstream is standard output. Not for concurrent use.
type downstream struct {
	w      io.Writer
	cancel context.CancelCauseFunc
}

func (d *downstream) Write(p []byte) (int, error) {
	return d.outcome(d.w.Write(p))
}

// outcome makes of an error of a write what the stage's users know.
func (d *downstream) outcome(n int, err error) (int, error) {
	if err == nil {
		return n, nil
	}
	// io.ErrClosedPipe is what an io.Pipe says, which stands for the pipe where commands run in one process.
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe) {
		d.cancel(ErrDownstreamClosed)
		return n, ErrDownstreamClosed
	}
	return n, fmt.Errorf("standard output: %w", err)
}
