//go:build amd64

package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"xw/pkg/launch"
	"xw/pkg/proc"
	"xw/pkg/target"
	"xw/pkg/watch"
)

// command is the program that the session started.
type command struct {
	*launch.Child
	output *os.File // nil for standard error
}

func (c *command) close() {
	if c.output != nil {
		c.output.Close()
	}
}

// attachCommand starts the program and watches it before its first instruction. What only its libraries have is armed
// when its entry point is reached.
func (r *run) attachCommand(ctx context.Context, specs []target.Spec) error {
	if err := r.startCommand(); err != nil {
		return err
	}
	for {
		again, err := r.attachHeld(ctx, specs)
		if err != nil {
			_ = r.child.Kill() // held by this process, it could not go on
			if errors.Is(err, target.ErrNotFound) {
				return &commandError{err}
			}
			return err
		}
		if !again {
			return nil
		}
		if r.set != nil {
			r.set.Close()
		}
		r.proc.Close()
		r.set, r.proc, r.watches, r.notes = nil, nil, nil, nil
	}
}

// commandError is an error about a command that is not there any more: the hint that an error of a process carries would
// name one that has ended.
type commandError struct{ err error }

func (e *commandError) Error() string { return e.err.Error() }

// Hint says how to find the names.
func (e *commandError) Hint() string {
	return "while the command runs, xw-open --pid N --list prints what can be watched"
}

func (r *run) startCommand() error {
	cmd := launch.Command{Argv: r.cfg.Command, Stdin: r.io.In, Stdout: r.io.Err, Stderr: r.io.Err}
	var output *os.File
	if r.cfg.ChildOutput != "" {
		var err error
		if output, err = create(r.cfg.ChildOutput); err != nil {
			return err
		}
		cmd.Stdout = output
	}
	child, err := launch.Start(cmd)
	if err != nil {
		if output != nil {
			output.Close()
		}
		return err
	}
	r.child = &command{Child: child, output: output}
	return nil
}

// attachHeld watches the program where it is held after an exec. again says that it has executed another one on the
// way to its entry point.
func (r *run) attachHeld(ctx context.Context, specs []target.Spec) (again bool, err error) {
	if r.proc, err = proc.Open(r.child.PID()); err != nil {
		return false, watch.Explain(err)
	}
	early, late, err := r.sort(specs)
	if err != nil {
		return false, err
	}
	r.laterReads = slices.ContainsFunc(late, func(s target.Spec) bool { return s.Access == target.Read || s.Access == target.ReadWrite })
	if len(early) > 0 {
		if err := r.open(early, atExec); err != nil {
			return false, err
		}
	}
	if len(late) == 0 {
		return false, nil
	}
	event, err := r.child.RunToEntry(ctx)
	switch {
	case err != nil:
		return false, err
	case event == launch.Execed:
		return true, nil
	case event == launch.Ended:
		return false, fmt.Errorf("watch %q: the program ended before its entry point: %s", r.cfg.Command[0], r.child.Status())
	case event == launch.Interrupted:
		return false, context.Cause(ctx)
	}
	return false, r.open(late, resolveOptions)
}

// atExec is how names are understood while a program has no more than itself and its loader.
var atExec = target.Options{AllowRead: resolveOptions.AllowRead, Program: true}

// sort parts the watches into those whose place is there now and those that libraries may bring.
func (r *run) sort(specs []target.Spec) (early, late []target.Spec, err error) {
	for _, spec := range specs {
		_, err := target.Resolve(r.proc, []target.Spec{spec}, atExec)
		switch {
		case err == nil:
			early = append(early, spec)
		case errors.Is(err, target.ErrNotFound):
			late = append(late, spec)
		default:
			return nil, nil, err
		}
	}
	return early, late, nil
}

// open resolves watches and opens them, beside those that are open already.
func (r *run) open(specs []target.Spec, opts target.Options) error {
	plan, err := target.Resolve(r.proc, specs, opts)
	if err != nil {
		return err
	}
	first := len(r.watches)
	r.take(plan)
	if n := r.slots(); n > watch.MaxSlots {
		return fmt.Errorf("plan the slots: the watches need %d hardware slots together, and x86 has %d", n, watch.MaxSlots)
	}
	if r.set != nil {
		return r.set.Add(slots(r.watches, first))
	}
	r.set, err = watch.Open(r.proc, r.openConfig())
	return err
}

// release lets the program run.
func (r *run) release() error {
	if r.child == nil {
		return nil
	}
	return r.child.Detach()
}

// endTime is how long a program that was told to end is waited for, so that the end record can say how it did.
const endTime = 200 * time.Millisecond

// endChild says how the program has ended, and ends it if that was asked for.
func (r *run) endChild(ctx context.Context) string {
	if r.child == nil {
		return ""
	}
	wait := time.Duration(0)
	sig := r.io.Signal(context.Cause(ctx))
	switch {
	case r.cfg.Kill:
		r.tell("end", r.child.Kill())
		wait = stopLimit
	case sig == os.Interrupt || sig == syscall.SIGTERM:
		r.tell("pass on a signal to", r.child.Forward(sig))
		wait = endTime
	}
	if r.reason == StopExited {
		wait = stopLimit // only its status has yet to be taken
	}
	select {
	case <-r.child.Done():
	case <-time.After(wait):
	}
	return r.child.Status()
}

// tell says that something could not be done with the program. That it has ended is none.
func (r *run) tell(what string, err error) {
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		r.io.Say("%s %q: %v", what, r.cfg.Command[0], err)
	}
}
