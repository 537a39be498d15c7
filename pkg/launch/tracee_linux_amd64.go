package launch

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"xw/pkg/proc"
)

// atEntry is AT_ENTRY of the auxiliary vector (getauxval(3)): the address of the program's entry point, not that of its
// dynamic loader.
const atEntry = 9

// int3 is the breakpoint instruction. It is one byte, so that it fits in front of whatever the entry point has.
const int3 = 0xcc

// tracee is the program seen from the tracer, whose thread alone may call its methods (ptrace(2)).
type tracee struct {
	pid     int
	sigchld chan os.Signal // news from wait4

	ended  bool // and reaped, with status
	status unix.WaitStatus
	entry  uint64 // where the breakpoint is; 0 if there is none
	saved  byte   // what it stands for
}

// begin waits until exec(2) is done, which the kernel reports by a SIGTRAP since the child asked to be traced, and makes
// sure that the program dies with the tracer. TRACEFORK is there because a copy of the program has the breakpoint too.
func (t *tracee) begin() error {
	var status unix.WaitStatus
	if err := wait(t.pid, &status); err != nil {
		return err
	}
	if !status.Stopped() || status.StopSignal() != unix.SIGTRAP {
		return fmt.Errorf("wait for exec: unexpected state %#x", uint32(status))
	}
	options := unix.PTRACE_O_EXITKILL | unix.PTRACE_O_TRACEEXEC | unix.PTRACE_O_TRACEFORK
	if err := unix.PtraceSetOptions(t.pid, options); err != nil {
		return fmt.Errorf("ptrace: set options: %w", err)
	}
	return nil
}

// wait is wait4(2) for one process, whatever it is.
func wait(pid int, status *unix.WaitStatus) error {
	for {
		_, err := unix.Wait4(pid, status, unix.WALL, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// toEntry lets the program run to its entry point.
func (t *tracee) toEntry(ctx context.Context) (Event, error) {
	if err := t.setBreakpoint(); err != nil {
		return 0, err
	}
	interrupted := false // a SIGSTOP of ours is on its way, which must not be left behind
	for sig := 0; ; {
		if err := unix.PtraceCont(t.pid, sig); err != nil && !errors.Is(err, unix.ESRCH) { // killed meanwhile: wait tells
			return 0, fmt.Errorf("ptrace: continue: %w", err)
		}
		err := t.await(ctx)
		if err != nil && ctx.Err() != nil {
			interrupted, ctx = true, context.Background()
			// To this thread, the others must not stop.
			if err := unix.Tgkill(t.pid, t.pid, unix.SIGSTOP); err != nil && !errors.Is(err, unix.ESRCH) {
				return 0, fmt.Errorf("stop the program: %w", err)
			}
			err = t.await(ctx)
		}
		if err != nil {
			return 0, err
		}
		var event Event
		event, sig, err = t.stopped(interrupted)
		switch {
		case err != nil:
			return 0, err
		case event == AtEntry && interrupted:
			// The SIGSTOP is still to come, before the next instruction.
		case event != 0:
			return event, nil
		}
	}
}

// stopped deals with the state that the program has stopped in. It returns the event, if it is one, or else the signal
// to continue with.
func (t *tracee) stopped(interrupted bool) (event Event, sig int, err error) {
	status := t.status
	switch {
	case !status.Stopped():
		t.ended = true
		return Ended, 0, nil
	case status.TrapCause() == unix.PTRACE_EVENT_EXEC:
		t.entry = 0 // gone with the old image
		return Execed, 0, nil
	case status.TrapCause() == unix.PTRACE_EVENT_FORK:
		return 0, 0, t.letForkGo()
	case status.StopSignal() == unix.SIGTRAP:
		hit, err := t.takeBreakpoint()
		if hit || err != nil {
			return AtEntry, 0, err
		}
	case status.StopSignal() == unix.SIGSTOP && interrupted:
		return Interrupted, 0, t.clearBreakpoint()
	case t.groupStopped():
		// It has already taken the signal, and stopping is what it would do. It is held here, so a stop of this kind
		// cannot be kept up: it goes on, as after SIGCONT.
		return 0, 0, nil
	}
	return 0, int(status.StopSignal()), nil
}

// await waits until the program stops or ends, and sets status. It fails if ctx is done before.
func (t *tracee) await(ctx context.Context) error {
	for {
		pid, err := unix.Wait4(t.pid, &t.status, unix.WALL|unix.WNOHANG, nil)
		switch {
		case pid == t.pid:
			return nil
		case err != nil && !errors.Is(err, unix.EINTR):
			return fmt.Errorf("wait for the program: %w", err)
		}
		select {
		case <-t.sigchld:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// setBreakpoint puts int3 at the entry point.
func (t *tracee) setBreakpoint() error {
	entry, err := entryPoint(t.pid)
	if err != nil {
		return err
	}
	var code [1]byte
	if _, err := unix.PtracePeekText(t.pid, uintptr(entry), code[:]); err != nil {
		return fmt.Errorf("ptrace: read the entry point %#x: %w", entry, err)
	}
	t.saved = code[0]
	if err := poke(t.pid, entry, int3); err != nil {
		return err
	}
	t.entry = entry
	return nil
}

func entryPoint(pid int) (uint64, error) {
	p, err := proc.Open(pid)
	if err != nil {
		return 0, err
	}
	defer p.Close()
	auxv, err := p.Auxv()
	if err != nil {
		return 0, err
	}
	if auxv[atEntry] == 0 {
		return 0, errors.New("the program has no entry point")
	}
	return auxv[atEntry], nil
}

func poke(pid int, addr uint64, b byte) error {
	if _, err := unix.PtracePokeText(pid, uintptr(addr), []byte{b}); err != nil {
		return fmt.Errorf("ptrace: write the entry point %#x: %w", addr, err)
	}
	return nil
}

func (t *tracee) clearBreakpoint() error {
	if t.entry == 0 {
		return nil
	}
	err := poke(t.pid, t.entry, t.saved)
	t.entry = 0
	return err
}

// ripOffset is where the instruction pointer is in struct user (sys/user.h).
const ripOffset = unsafe.Offsetof(unix.PtraceRegs{}.Rip)

// takeBreakpoint undoes the breakpoint if the program has run into it: the instruction pointer is after the int3 then.
func (t *tracee) takeBreakpoint() (hit bool, err error) {
	rip, err := t.rip()
	if err != nil || t.entry == 0 || rip != t.entry+1 {
		return false, err
	}
	entry := binary.NativeEndian.AppendUint64(nil, t.entry)
	if err := t.clearBreakpoint(); err != nil {
		return false, err
	}
	if _, err := unix.PtracePokeUser(t.pid, ripOffset, entry); err != nil {
		return false, fmt.Errorf("ptrace: write the instruction pointer: %w", err)
	}
	return true, nil
}

// rip is the instruction pointer. It is read by itself: what PTRACE_GETREGSET returns has another layout for a 32-bit
// program.
func (t *tracee) rip() (uint64, error) {
	var rip [8]byte
	if _, err := unix.PtracePeekUser(t.pid, ripOffset, rip[:]); err != nil {
		return 0, fmt.Errorf("ptrace: read the instruction pointer: %w", err)
	}
	return binary.NativeEndian.Uint64(rip[:]), nil
}

// letForkGo takes the breakpoint out of a copy that the program has made of itself, and lets the copy run free. It is
// stopped by a SIGSTOP that the kernel sent it.
func (t *tracee) letForkGo() error {
	msg, err := unix.PtraceGetEventMsg(t.pid)
	if err != nil {
		return fmt.Errorf("ptrace: get the forked process: %w", err)
	}
	pid := int(msg)
	var status unix.WaitStatus
	if err := wait(pid, &status); err != nil || !status.Stopped() {
		return nil // it has been killed already
	}
	if t.entry != 0 {
		if err := poke(pid, t.entry, t.saved); err != nil {
			return err
		}
	}
	if err := unix.PtraceDetach(pid); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("ptrace: detach the forked process: %w", err)
	}
	return nil
}

// groupStopped tells whether the program has stopped because of a stop signal, and not to ask what to do with one:
// PTRACE_GETSIGINFO fails with EINVAL then (ptrace(2), Group-stop).
func (t *tracee) groupStopped() bool {
	switch t.status.StopSignal() {
	case unix.SIGSTOP, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU:
	default:
		return false
	}
	var info unix.Siginfo
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GETSIGINFO, uintptr(t.pid), 0,
		uintptr(unsafe.Pointer(&info)), 0, 0)
	return errno == unix.EINVAL
}

// RunToEntry lets a held program run until it is about to execute the instruction at its entry point: the kernel's exec
// and the dynamic loader have done their work, and (with glibc) the constructors of the libraries have run. Signals
// that the program is sent meanwhile reach it, except that it is not stopped by a job control signal. After Execed it
// may be called again. It is held when RunToEntry returns, unless it has ended.
func (c *Child) RunToEntry(ctx context.Context) (event Event, err error) {
	err = c.call(func() error {
		event, err = c.tracee.toEntry(ctx)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("run to the entry point: %w", err)
	}
	if event == Ended {
		c.ended(c.tracee.status)
	}
	return event, nil
}

// Detach lets a held program run free. Nothing is to be done if it has ended.
func (c *Child) Detach() error {
	if c.tracee.ended {
		return nil
	}
	err := c.call(func() error { return unix.PtraceDetach(c.tracee.pid) })
	if errors.Is(err, unix.ESRCH) {
		err = nil // it was killed: that will be its status
	}
	c.release()
	go c.reap()
	if err != nil {
		return fmt.Errorf("ptrace: detach: %w", err)
	}
	return nil
}
