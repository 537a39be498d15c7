//go:build !(linux && amd64)

package launch

import (
	"context"
	"os"

	"xw/pkg/proc"
)

// Child is a program that was started. Here there is none.
type Child struct{}

// Start fails with proc.ErrUnsupported.
func Start(Command) (*Child, error) { return nil, proc.ErrUnsupported }

// PID is the program's process.
func (*Child) PID() int { return 0 }

// Done is closed when the program has ended.
func (*Child) Done() <-chan struct{} { return nil }

// Status says how the program stands.
func (*Child) Status() string { return "unknown" }

// Wait waits for the program's end and returns its Status.
func (*Child) Wait() string { return "unknown" }

// Signal fails.
func (*Child) Signal(os.Signal) error { return proc.ErrUnsupported }

// Forward fails.
func (*Child) Forward(os.Signal) error { return proc.ErrUnsupported }

// Kill fails.
func (*Child) Kill() error { return proc.ErrUnsupported }

// RunToEntry fails.
func (*Child) RunToEntry(context.Context) (Event, error) { return 0, proc.ErrUnsupported }

// Detach fails.
func (*Child) Detach() error { return proc.ErrUnsupported }
