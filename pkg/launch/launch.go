// Package launch starts a program and holds it before its first instruction, and again at its entry point, so that it
// can be watched from the start; then it lets it run as if nobody had ever held it. It needs Linux on x86-64; elsewhere
// Start fails.
package launch

import (
	"fmt"
	"os"
)

// Command is the program to start.
type Command struct {
	Argv   []string // the first is looked up in PATH, unless it has a slash
	Stdin  *os.File
	Stdout *os.File
	Stderr *os.File
}

// Event is where a held program has come to.
type Event int

// Events.
const (
	AtEntry     Event = iota + 1 // about to execute the instruction at its entry point; the dynamic loader has done its work
	Execed                       // it has executed another program (or itself again), and is held before its first instruction
	Ended                        // it has ended
	Interrupted                  // the context was done; it is held wherever it was
)

// String names the event.
func (e Event) String() string {
	switch e {
	case AtEntry:
		return "at entry"
	case Execed:
		return "execed"
	case Ended:
		return "ended"
	case Interrupted:
		return "interrupted"
	}
	return fmt.Sprintf("event %d", int(e))
}

// startError says why a program could not be started, in the words of a shell.
type startError struct {
	name  string
	cause error
	hint  string
}

func (e *startError) Error() string { return fmt.Sprintf("start %q: %v", e.name, e.cause) }
func (e *startError) Unwrap() error { return e.cause }
func (e *startError) Hint() string  { return e.hint }
