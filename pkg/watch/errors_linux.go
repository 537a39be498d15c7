//go:build amd64

package watch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// OpenError says why a watchpoint could not be opened, privileges apart.
type OpenError struct {
	TID, CPU int // TID -1: every task; CPU -1: whichever it runs on
	Slot     Slot
	Mine     int    // watchpoints that the session has there already
	Wanted   int    // watchpoints that it needs there
	Paranoid string // the level of perf_event_paranoid, or why it could not be read
	Tracer   string // who traces the target, if somebody does
	Err      error
}

func (e *OpenError) Error() string {
	text := fmt.Sprintf("open watchpoint: %s: %v (%s, perf_event_paranoid is %s)",
		where(e.TID, e.CPU, e.Slot), e.Err, errno(e.Err), e.Paranoid)
	if !errors.Is(e.Err, unix.ENOSPC) {
		return text
	}
	text += fmt.Sprintf(": the watches need %d slots, x86 has %d per thread, and others hold %d of them", e.Wanted, MaxSlots, MaxSlots-e.Mine)
	if e.Tracer != "" {
		text += "; the target is traced by " + e.Tracer
	}
	return text
}

func (e *OpenError) Unwrap() error { return e.Err }

// Hint says what to do about it; "" when nothing is known to help.
func (e *OpenError) Hint() string {
	switch {
	case !errors.Is(e.Err, unix.ENOSPC):
		return ""
	case e.TID == -1:
		return "in scope cpu the watchpoints that a debugger has on any process count: --scope inherit, watch fewer slots, or end what holds them"
	}
	return "watch fewer slots, or detach the debugger or end the perf that holds them"
}

func where(tid, cpu int, s Slot) string {
	who := fmt.Sprintf("tid=%d", tid)
	if tid == -1 {
		who = "every task"
	}
	return fmt.Sprintf("%s cpu=%d addr=%#x len=%d access=%s", who, cpu, s.Addr, s.Len, s.Access)
}

// errno names the error number in err; "no errno" if there is none.
func errno(err error) string {
	var n unix.Errno
	if !errors.As(err, &n) {
		return "no errno"
	}
	return unix.ErrnoName(n)
}

// openError says why a slot's watchpoint could not be opened.
func (s *Set) openError(slot, tid, cpu int, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return s.permissionError("open watchpoint: "+where(tid, cpu, s.cfg.Slots[slot]), tid, err)
	}
	e := &OpenError{TID: tid, CPU: cpu, Slot: s.cfg.Slots[slot], Mine: slot, Wanted: len(s.cfg.Slots), Paranoid: paranoid(), Err: err}
	if errors.Is(err, unix.ENOSPC) {
		e.Tracer = s.tracer()
	}
	return e
}

// PermissionError is something that takes a privilege which xw-open has not.
type PermissionError struct {
	Op       string // what was refused
	Need     string // the capabilities that it takes
	Paranoid string // the level of perf_event_paranoid
	Way      string // the hint
	Err      error
}

func (e *PermissionError) Error() string {
	return fmt.Sprintf("permission: %s: %v (%s, perf_event_paranoid is %s): it takes %s", e.Op, e.Err, errno(e.Err), e.Paranoid, e.Need)
}

func (e *PermissionError) Unwrap() error { return e.Err }

// Hint is what to type.
func (e *PermissionError) Hint() string { return e.Way }

// Ways to get the privilege.
const (
	grant     = `run xw-open with sudo, or sudo setcap cap_perfmon,cap_bpf,cap_sys_ptrace+ep "$(command -v xw-open)"`
	capTarget = "CAP_PERFMON and CAP_SYS_PTRACE"
)

// permissionError says what a refused opening on a task (-1: on all) takes.
func (s *Set) permissionError(op string, tid int, err error) error {
	e := &PermissionError{Op: op, Need: "CAP_PERFMON", Paranoid: paranoid(), Err: err}
	level, _ := strconv.Atoi(e.Paranoid) // 0 if it is unknown
	switch {
	case level > 2:
		e.Way = "Debian's level 3 and Ubuntu's level 4 of perf_event_paranoid keep even one's own processes to CAP_PERFMON: " +
			"sudo sysctl kernel.perf_event_paranoid=2, or " + grant
	case tid == -1:
		e.Way = "scope cpu watches whole CPUs; --scope inherit takes no privilege on one's own processes; else " + grant
	case s.cfg.Kernel == "on":
		e.Way = "hits made by the kernel are left out with --kernel off; else " + grant + ", or sudo sysctl kernel.perf_event_paranoid=1"
	default:
		e.Need, e.Way = capTarget, "the process is another user's, or has changed its user: "+grant
	}
	return e
}

// bpfError says why BPF programs cannot be had. Root is refused for other reasons than a missing capability.
func bpfError(err error) error {
	if !errors.Is(err, fs.ErrPermission) || os.Geteuid() == 0 {
		return err
	}
	return &PermissionError{Op: "load BPF programs", Need: "CAP_BPF and CAP_PERFMON", Paranoid: paranoid(), Way: grant, Err: unix.EPERM}
}

// LimitError is a resource limit that leaves no room; its hint names the limit.
type LimitError struct {
	What string
	Hit  string
	Err  error
}

func (e *LimitError) Error() string { return e.What + ": " + e.Err.Error() }
func (e *LimitError) Unwrap() error { return e.Err }

// Hint says which limit to raise.
func (e *LimitError) Hint() string { return e.Hit }

// errTooMany is the cause when a limit would be passed.
var errTooMany = errors.New("too many")

// raiseFiles is what to do about RLIMIT_NOFILE.
const raiseFiles = "raise the limit of open files (ulimit -n), or use --scope cpu, which needs a few per CPU"

func lockedMemoryError(cpus int, err error) error {
	memlock := "unknown"
	var lim unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &lim) == nil {
		memlock = strconv.FormatUint(lim.Cur/1024, 10) + " KiB"
	}
	perCPU := "unknown"
	if b, err := os.ReadFile("/proc/sys/kernel/perf_event_mlock_kb"); err == nil {
		perCPU = strings.TrimSpace(string(b)) + " KiB"
	}
	return &LimitError{
		What: fmt.Sprintf("map rings: even one page for each of %d CPUs is refused", cpus),
		Hit: fmt.Sprintf("locked memory is limited to perf_event_mlock_kb (%s) per CPU and RLIMIT_MEMLOCK (%s): "+
			"end other perf sessions, or raise the limit (ulimit -l)", perCPU, memlock),
		Err: err,
	}
}

// Explain adds to an error of opening a process, or of what else takes descriptors, the limit or the privilege that is
// in the way. Other errors, and those that say it already, are returned as they are.
func Explain(err error) error {
	var permission *PermissionError
	var limit *LimitError
	switch {
	case err == nil, errors.As(err, &permission), errors.As(err, &limit):
		return err
	case errors.Is(err, unix.EMFILE):
		text := "unknown"
		var lim unix.Rlimit
		if unix.Getrlimit(unix.RLIMIT_NOFILE, &lim) == nil {
			text = strconv.FormatUint(lim.Cur, 10)
		}
		return &LimitError{What: "open descriptors: RLIMIT_NOFILE is " + text, Hit: raiseFiles, Err: err}
	case errors.Is(err, fs.ErrPermission):
		return &PermissionError{Op: "look at the target", Need: capTarget, Paranoid: paranoid(),
			Way: "the process is another user's, or has changed its user: " + grant, Err: err}
	}
	return err
}

// paranoid is the level of /proc/sys/kernel/perf_event_paranoid as text.
func paranoid() string {
	b, err := os.ReadFile("/proc/sys/kernel/perf_event_paranoid")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(b))
}
