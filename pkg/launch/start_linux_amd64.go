package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Child is a program that was started. It is held, in a ptrace stop, when Start and RunToEntry return, and runs free
// after Detach. If this process dies while it holds the program, the kernel kills that (PTRACE_O_EXITKILL): it was not
// meant to run unwatched.
//
// RunToEntry and Detach are for one goroutine; the other methods may be called from any, at any time.
type Child struct {
	process *os.Process
	calls   chan func() // what the tracer is to do; closed when it is no longer needed
	tracee  tracee      // belongs to the tracer

	done   chan struct{}      // closed at the program's end, when the following are set
	status syscall.WaitStatus // how it ended
	err    error              // why that could not be had
}

// Start starts a program and returns when it is held before its first instruction: everything that exec(2) does is
// done, and no code of the program, its interpreter or its dynamic loader has run. If the file is a script, the program
// is its interpreter.
//
// The program has the limits and the signal mask that this process was started with, if Start is called before either
// is changed; of ignored signals SIGHUP and SIGINT stay ignored, the Go runtime forgets about the others. Being traced
// at its exec, a set-user-id program does not change its user.
func Start(cmd Command) (*Child, error) {
	path, err := lookPath(cmd.Argv[0])
	if err != nil {
		return nil, err
	}
	c := &Child{calls: make(chan func()), done: make(chan struct{})}
	c.tracee.sigchld = make(chan os.Signal, 1)
	signal.Notify(c.tracee.sigchld, unix.SIGCHLD)
	go c.trace()
	if err := c.call(func() error { return c.start(path, cmd) }); err != nil {
		c.release()
		return nil, err
	}
	return c, nil
}

// trace is the tracer: the kernel takes ptrace requests only from the thread that started the program, so that all are
// made here. The thread ends with the goroutine, which never unlocks it.
func (c *Child) trace() {
	runtime.LockOSThread()
	for f := range c.calls {
		f()
	}
}

// call lets the tracer do f.
func (c *Child) call(f func() error) error {
	result := make(chan error)
	c.calls <- func() { result <- f() }
	return <-result
}

func (c *Child) start(path string, cmd Command) error {
	process, err := os.StartProcess(path, cmd.Argv, &os.ProcAttr{
		Files: []*os.File{cmd.Stdin, cmd.Stdout, cmd.Stderr},
		Sys:   &syscall.SysProcAttr{Ptrace: true},
	})
	if err != nil {
		return explain(cmd.Argv[0], path, err)
	}
	c.process, c.tracee.pid = process, process.Pid
	if err := c.tracee.begin(); err != nil {
		_ = process.Kill() // it may have ended
		_, _ = process.Wait()
		return fmt.Errorf("start %q: %w", cmd.Argv[0], err)
	}
	return nil
}

// lookPath finds a program as a shell does.
func lookPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case err == nil, errors.Is(err, exec.ErrDot): // PATH names the current directory, on purpose
		return path, nil
	case errors.Is(err, exec.ErrNotFound):
		return "", &startError{name: name, cause: errors.New("command not found")}
	}
	var wrapped *exec.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return "", explain(name, name, err)
}

// explain gives the cause, and what to do about it, of an exec(2) that failed.
func explain(name, path string, err error) error {
	var wrapped *os.PathError
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	e := &startError{name: name, cause: err}
	info, statErr := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && statErr == nil:
		e.cause = fmt.Errorf("its interpreter or dynamic loader: %w", err)
	case errors.Is(err, fs.ErrPermission) && statErr == nil && info.IsDir():
		e.cause = unix.EISDIR
	case errors.Is(err, unix.ENOEXEC):
		e.hint = "if it is a shell script without #!: sh " + path
	case errors.Is(err, fs.ErrPermission) && statErr == nil && info.Mode()&0o111 == 0:
		e.hint = "chmod +x " + path
	}
	return e
}

// release ends the tracer. A program that it still holds is killed by that.
func (c *Child) release() {
	signal.Stop(c.tracee.sigchld)
	close(c.calls)
}

// PID is the program's process.
func (c *Child) PID() int { return c.process.Pid }

// Done is closed when the program has ended. It stays open while the program is held.
func (c *Child) Done() <-chan struct{} { return c.done }

// Status says how the program stands: "running", "exit 3" or "signal SIGKILL", or "unknown" if somebody else took its
// exit status.
func (c *Child) Status() string {
	select {
	case <-c.done:
	default:
		return "running"
	}
	switch {
	case c.err != nil:
		return "unknown"
	case c.status.Signaled():
		return "signal " + signalName(c.status.Signal())
	}
	return fmt.Sprintf("exit %d", c.status.ExitStatus())
}

func signalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	return fmt.Sprint(int(sig)) // a real-time signal
}

// Wait waits for the program's end and returns its Status. A program that is held does not end.
func (c *Child) Wait() string {
	<-c.done
	return c.Status()
}

// Signal sends a signal to the program; os.ErrProcessDone if it has ended.
func (c *Child) Signal(sig os.Signal) error { return c.process.Signal(sig) }

// Kill ends the program, held or not. If it is held, Detach is still to be called, for the others to see its end.
func (c *Child) Kill() error { return c.process.Kill() }

// Forward passes on a signal that this process was sent, as far as the program did not get it as well: a Ctrl-C goes
// to all processes in the foreground of the terminal. (A SIGINT that is sent to this process alone while it is in the
// foreground cannot be told from that, and is not passed on.)
func (c *Child) Forward(sig os.Signal) error {
	if sig == os.Interrupt && inForeground() {
		return nil
	}
	return c.Signal(sig)
}

// inForeground tells whether this process is in the foreground of its terminal (tcgetpgrp(3)).
func inForeground() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false // no terminal
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// reap waits for the end of the program once it runs free.
func (c *Child) reap() {
	state, err := c.process.Wait()
	if c.err = err; err == nil {
		c.status = state.Sys().(syscall.WaitStatus)
	}
	close(c.done)
}

// ended notes the exit status that the tracer has seen.
func (c *Child) ended(status unix.WaitStatus) {
	c.release()
	c.status = syscall.WaitStatus(status)
	close(c.done)
}
