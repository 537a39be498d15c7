package stage

import (
	"errors"
	"fmt"
	"os"
)

// Exit codes of all commands.
const (
	ExitOK      = 0
	ExitFailure = 1
	ExitUsage   = 2
)

// ErrDownstreamClosed says that whoever read standard output has gone. It is the cause of the context's end when that
// is why a command has to stop, and what writes to standard output then return. It is no failure: the exit code is 0
// and nothing is printed.
var ErrDownstreamClosed = errors.New("write standard output: the reader has gone")

// SignalError says that a signal ended the command. It is the cause of the context's end in that case.
type SignalError struct {
	Signal os.Signal
}

// Error names the signal.
func (e *SignalError) Error() string { return fmt.Sprintf("interrupted by signal: %v", e.Signal) }

// Usagef returns an error for a command line that cannot be meant: exit code 2. Errors of other packages count as
// such, too, if they have a method Usage() bool that returns true.
func Usagef(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

// WithHint attaches to err a line that says what to do about it. Errors of other packages carry a hint by a method
// Hint() string; "" is none.
func WithHint(err error, format string, args ...any) error {
	return &hintError{err, fmt.Sprintf(format, args...)}
}

type usageError struct{ error }

func (e *usageError) Usage() bool   { return true }
func (e *usageError) Unwrap() error { return e.error }

type hintError struct {
	error
	hint string
}

func (e *hintError) Hint() string  { return e.hint }
func (e *hintError) Unwrap() error { return e.error }

// ExitCode maps the error that a command ended with to its exit code.
func ExitCode(err error) int {
	var usage interface{ Usage() bool }
	switch {
	case err == nil, errors.Is(err, ErrDownstreamClosed):
		return ExitOK
	case errors.As(err, &usage) && usage.Usage():
		return ExitUsage
	}
	return ExitFailure
}

// hints collects the hints of err and of all errors it wraps, outermost first, each text once.
func hints(err error) []string {
	var found []string
	seen := map[string]bool{"": true}
	var walk func(error)
	walk = func(err error) {
		if h, ok := err.(interface{ Hint() string }); ok && !seen[h.Hint()] {
			seen[h.Hint()] = true
			found = append(found, h.Hint())
		}
		switch u := err.(type) {
		case interface{ Unwrap() error }:
			if inner := u.Unwrap(); inner != nil {
				walk(inner)
			}
		case interface{ Unwrap() []error }:
			for _, inner := range u.Unwrap() {
				walk(inner)
			}
		}
	}
	walk(err)
	return found
}
