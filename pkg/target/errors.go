package target

import (
	"errors"
	"fmt"
	"strings"
)

// ErrNotFound is matched by the error of a symbol or module that the process does not have, or does not have yet.
var ErrNotFound = errors.New("not found")

// placeError is a place that cannot be watched in this process, with a hint what to do.
type placeError struct {
	watch string // the name of the watch
	text  string
	hint  string
	cause error // nil, or what errors.Is matches
}

func (e *placeError) Error() string { return fmt.Sprintf("watch %q: %s", e.watch, e.text) }

// Hint says what to do; "" if nothing can be said.
func (e *placeError) Hint() string { return e.hint }

func (e *placeError) Unwrap() error { return e.cause }

// Ambiguous says that a name has several places.
type Ambiguous struct {
	Watch  string   // the name of the watch
	Name   string   // what has several places
	Places []string // MODULE!SYMBOL and address of each
	listed []string // the same, not more than a few of each module
	hint   string
}

func (e *Ambiguous) Error() string {
	return fmt.Sprintf("watch %q: %q is ambiguous: %s", e.Watch, e.Name, strings.Join(e.listed, ", "))
}

// Hint says how to name one of them.
func (e *Ambiguous) Hint() string { return e.hint }
