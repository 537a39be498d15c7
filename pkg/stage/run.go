// Package stage holds the manners that the four commands share: how flags are parsed, messages printed and errors
// turned into exit codes; what signals and a closed pipe do; that binary data never meets a terminal.
//
// A command's main function is
//
//	func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
//
// where run fills a Command and calls Run. Tests call run in their own process.
package stage

import (
	"context"
	"errors"
	"io"
)

// Rule says what signals do to a command. A third signal always ends it at once.
type Rule int

const (
	// Source is the rule for the head of a pipe: the first signal ends the context, and the command stops in an
	// orderly way.
	Source Rule = iota
	// Filter is the rule for what reads from the pipe: the first signal changes nothing, since it reached the source
	// too, whose last records are still to come. The second ends the context, and with it reads of Stage.Stdin; the
	// exit code is then 1 even if Do returns nil.
	Filter
	// Sink is like Filter for a command that has something to print after its input was cut short: after the second
	// signal it may take the time it needs for that.
	Sink
)

// Command is one of the four binaries.
type Command struct {
	Name    string // as in messages: xw-decode
	Summary string // for --help
	Flags   any    // pointer to a struct with kong tags, whose Validate() error is called if it has one; overwritten
	Rule    Rule
	// Do is the command's work. It ends soon after ctx is done; context.Cause(ctx) is then a *SignalError or
	// ErrDownstreamClosed. Its error is printed, with the hints it carries, and decides about the exit code.
	Do func(ctx context.Context, s *Stage) error
}

// Run parses args, does the command's work and returns its exit code.
func Run(c Command, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	messages := NewMessages(c.Name, stderr)
	if c.Flags == nil {
		c.Flags = &struct{}{}
	}
	reset(c.Flags)
	done, err := parse(c, args, stdout)
	if err != nil {
		messages.Fail(err)
		return ExitCode(err)
	}
	if done {
		return ExitOK
	}

	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	signals := watchSignals(c.Rule, cancel)
	defer signals.stop()
	if c.Rule != Source {
		widen(stdin)
	}
	s := newStage(ctx, cancel, stdin, stdout, stderr, messages)
	defer s.close()

	result := make(chan error, 1)
	go func() { result <- c.Do(ctx, s) }()
	select {
	case err = <-result:
	case <-signals.atOnce:
		return ExitFailure
	}
	return c.finish(ctx, messages, err)
}

// finish prints how the command ended and returns the exit code.
func (c Command) finish(ctx context.Context, messages *Messages, err error) int {
	var signal *SignalError
	if c.Rule != Source && errors.As(context.Cause(ctx), &signal) && ExitCode(err) == ExitOK {
		err = signal
	}
	code := ExitCode(err)
	if code != ExitOK {
		messages.Fail(err)
	}
	return code
}
