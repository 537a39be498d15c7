package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Process is a process that was alive when Open returned. What its methods without an error return is as it was then.
// All methods may be called at the same time, Close excepted.
//
// Everything is read below one descriptor of /proc/PID: it belongs to that process for good, so a later one with the same
// number is never taken for it.
type Process struct {
	pid      int
	givenTID int
	pidfd    int
	dir      int      // O_PATH on /proc/PID
	memory   *os.File // the maps file, which holds the memory first seen; see HoldMM
	clock    uint64   // ns that CLOCK_BOOTTIME is ahead of CLOCK_MONOTONIC
	start    uint64   // clock ticks of CLOCK_BOOTTIME
	exe      Exe
	comm     string
	argv     []string
	bits     int
	nspid    int
	status   Status
}

// Open opens the process that id is of: a process id, or the id of any of its threads. The errors match ErrNoProcess,
// ErrKernelThread, ErrZombie or fs.ErrPermission.
func Open(id int) (_ *Process, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("open process: %d: %w", id, err)
		}
	}()
	if id <= 0 {
		return nil, ErrNoProcess
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", id))
	if err != nil {
		return nil, noProcess(id, err)
	}
	pid, err := parseStatus(b).num("Tgid", 0)
	if err != nil {
		return nil, err
	}
	p := &Process{pid: pid, pidfd: -1, dir: -1}
	if pid != id {
		p.givenTID = id
	}
	if err := p.identify(); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// noProcess tells a number that nobody has from one that is hidden by the hidepid option of /proc.
func noProcess(id int, err error) error {
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH) {
		return err
	}
	if unix.Kill(id, 0) == unix.EPERM {
		return fmt.Errorf("hidden by the hidepid option of /proc: %w", fs.ErrPermission)
	}
	return ErrNoProcess
}

// identify takes what tells the process from all others. The order matters: a pidfd that still shows a live process after
// all else was read proves that all of it belongs to one process.
func (p *Process) identify() error {
	var err error
	if p.pidfd, err = unix.PidfdOpen(p.pid, 0); err != nil {
		return noProcess(p.pid, fmt.Errorf("pidfd_open: %w", err))
	}
	if p.dir, err = unix.Open(p.path(""), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return noProcess(p.pid, err)
	}
	if p.clock, err = bootAhead(); err != nil {
		return err
	}
	st, err := p.stat("")
	if err != nil {
		return noProcess(p.pid, err)
	}
	if st.flags&pfKthread != 0 {
		return fmt.Errorf("%s is %w", st.comm, ErrKernelThread)
	}
	p.start, p.comm = st.start, st.comm
	if err := p.live(p.describe); err != nil {
		if errors.Is(err, ErrExited) {
			return ErrZombie
		}
		return err
	}
	if p.Exited() {
		return ErrZombie
	}
	return nil
}

// describe reads through the live thread whose directory is d. The memory comes first: that it still has users at the end
// proves that no exec came in between.
func (p *Process) describe(d string) error {
	if p.memory != nil {
		p.memory.Close()
	}
	var err error
	if p.memory, err = p.openMaps(d); err != nil {
		return err
	}
	if p.status, err = p.readStatus(d); err != nil {
		return err
	}
	if p.nspid, err = p.innermostPID(); err != nil {
		return err
	}
	b, err := p.read(d + "cmdline")
	if err != nil {
		return err
	}
	p.argv = parseArgv(b)
	if p.exe, err = p.readExe(d); err != nil {
		return err
	}
	if p.bits, err = p.readBits(d); err != nil {
		return err
	}
	if p.memoryUnused() {
		return errNoMemory
	}
	return nil
}

func (p *Process) readStatus(d string) (Status, error) {
	b, err := p.read(d + "status")
	if err != nil {
		return Status{}, err
	}
	s := parseStatus(b)
	uid, err := s.num("Uid", 0)
	if err != nil {
		return Status{}, err
	}
	euid, err := s.num("Uid", 1)
	return Status{State: s["State"], UID: uid, EUID: euid}, err
}

// innermostPID is the last number of NSpid, which kernels without pid namespaces leave out. The leader's directory has it
// even when the leader is gone; a thread's own has the thread's numbers.
func (p *Process) innermostPID() (int, error) {
	b, err := p.read("status")
	if err != nil {
		return 0, err
	}
	s := parseStatus(b)
	if s["NSpid"] == "" {
		return p.pid, nil
	}
	return s.num("NSpid", -1)
}

// readExe follows the exe link of a live thread; the file may have been deleted or replaced.
func (p *Process) readExe(d string) (Exe, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(p.dir, d+"exe", buf)
	if err != nil {
		return Exe{}, p.pathError("readlink", d+"exe", err)
	}
	var st unix.Stat_t
	if err := unix.Fstatat(p.dir, d+"exe", &st, 0); err != nil {
		return Exe{}, p.pathError("stat", d+"exe", err)
	}
	e := Exe{Path: string(buf[:n]), Dev: st.Dev, Inode: st.Ino}
	if path, ok := trimDeleted(e.Path); ok && !p.isFile(e.Path, e.Dev, e.Inode) {
		e.Path, e.Deleted = path, true
	}
	return e, nil
}

// readBits takes the ELF class of the program, which decides the size of a pointer.
func (p *Process) readBits(d string) (int, error) {
	f, err := p.open(d + "exe")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	const eiClass, class32, class64 = 4, 1, 2 // elf.h
	var ident [5]byte
	if _, err := io.ReadFull(f, ident[:]); err != nil {
		return 0, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	switch {
	case !bytes.HasPrefix(ident[:], []byte("\x7fELF")):
		return 0, fmt.Errorf("%s: not an ELF file", f.Name())
	case ident[eiClass] == class32:
		return 32, nil
	case ident[eiClass] == class64:
		return 64, nil
	}
	return 0, fmt.Errorf("%s: unknown ELF class %d", f.Name(), ident[eiClass])
}

// Close gives up the descriptors.
func (p *Process) Close() error {
	if p.memory != nil {
		p.memory.Close()
	}
	for _, fd := range []int{p.pidfd, p.dir} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	return nil
}

// PID is the process id in the pid namespace of the caller's /proc.
func (p *Process) PID() int { return p.pid }

// GivenTID is the thread id that Open was given instead of a process id, else 0.
func (p *Process) GivenTID() int { return p.givenTID }

// PidFD is the process's pidfd. It belongs to the Process and is readable (POLLIN) when all threads have ended.
func (p *Process) PidFD() int { return p.pidfd }

// Start is the time at which the process was created, in clock ticks of CLOCK_BOOTTIME. The number and this time together
// name a process.
func (p *Process) Start() uint64 { return p.start }

// Birth is Start in ns of CLOCK_MONOTONIC, to the clock tick.
func (p *Process) Birth() uint64 { return p.monotonic(p.start) }

// Exe is the program file.
func (p *Process) Exe() Exe { return p.exe }

// Comm is the name of the main thread.
func (p *Process) Comm() string { return p.comm }

// Argv is the command line as the process shows it, which it may have overwritten. It can be empty.
func (p *Process) Argv() []string { return p.argv }

// Bits is the size of a pointer in bits, 32 or 64.
func (p *Process) Bits() int { return p.bits }

// NSPID is the process id in the process's own, innermost pid namespace.
func (p *Process) NSPID() int { return p.nspid }

// Status is what messages need of the process's status.
func (p *Process) Status() Status { return p.status }

// Exited reports whether all threads have ended.
func (p *Process) Exited() bool {
	return p.exitedWithin(0)
}

func (p *Process) exitedWithin(ms int) bool {
	fds := []unix.PollFd{{Fd: int32(p.pidfd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, ms)
		if err == nil {
			return n > 0
		}
		if err != unix.EINTR {
			return true
		}
	}
}

// Verify reports whether the process still is the one that was opened: alive (else ErrExited) and with the program and the
// memory first seen (else ErrReplaced).
func (p *Process) Verify() error {
	err := p.live(func(d string) error {
		e, err := p.readExe(d)
		switch {
		case err != nil:
			return err
		case !e.Same(p.exe):
			return fmt.Errorf("%w: was %q, is %q", ErrReplaced, p.exe.Path, e.Path)
		case p.memoryUnused():
			return fmt.Errorf("%w: the memory first seen is gone", ErrReplaced)
		}
		return nil
	})
	if p.Exited() {
		err = ErrExited
	}
	if err != nil {
		return fmt.Errorf("verify process: %d: %w", p.pid, err)
	}
	return nil
}

// memoryUnused reports whether the memory first seen has no users any more, as after an exec, also of the same program:
// its maps are then empty. When the thread that the file was opened through has ended, the kernel answers ESRCH and
// nothing is known.
func (p *Process) memoryUnused() bool {
	var b [1]byte
	n, err := p.memory.ReadAt(b[:], 0)
	return n == 0 && errors.Is(err, io.EOF)
}

// TracerPID is the process that traces this one (a debugger holds hardware watchpoints of its own) and its name; 0 when
// there is none or it cannot be told.
func (p *Process) TracerPID() (pid int, comm string) {
	err := p.live(func(d string) error {
		b, err := p.read(d + "status")
		if err == nil {
			pid, err = parseStatus(b).num("TracerPid", 0)
		}
		return err
	})
	if err != nil || pid == 0 {
		return 0, ""
	}
	if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err == nil {
		comm = string(bytes.TrimSuffix(b, []byte("\n")))
	}
	return pid, comm
}

// HoldMM keeps the address of the process's mm_struct from being reused until the result is closed, so that a kernel-side
// comparison with that address cannot take a later process for this one after an exec or the end. An open maps file does
// it: proc_mem_open (fs/proc/base.c) takes a reference with mmgrab, which holds the structure and not the memory. The
// file /proc/PID/mem does the same but asks for PTRACE_MODE_ATTACH, which Yama refuses, where maps asks for
// PTRACE_MODE_READ.
func (p *Process) HoldMM() (io.Closer, error) {
	fd, err := unix.FcntlInt(p.memory.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("hold memory: process %d: %w", p.pid, err)
	}
	return os.NewFile(uintptr(fd), p.memory.Name()), nil
}

// bootAhead measures how far CLOCK_BOOTTIME is ahead of CLOCK_MONOTONIC, by the time that the machine was suspended.
func bootAhead() (uint64, error) {
	var boot, mono unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono); err != nil {
		return 0, fmt.Errorf("read CLOCK_MONOTONIC: %w", err)
	}
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot); err != nil {
		return 0, fmt.Errorf("read CLOCK_BOOTTIME: %w", err)
	}
	ahead := boot.Nano() - mono.Nano()
	// Without a suspend the two differ by the moment between the two calls alone.
	if ahead < int64(time.Millisecond) {
		ahead = 0
	}
	return uint64(ahead), nil
}

// monotonic turns clock ticks of CLOCK_BOOTTIME into ns of CLOCK_MONOTONIC. What was born before a suspend comes out too
// early, by the time suspended since, and never below 0.
func (p *Process) monotonic(ticks uint64) uint64 {
	const tick = uint64(time.Second) / 100 // USER_HZ of Linux is 100 on every machine
	return max(ticks*tick, p.clock) - p.clock
}

// path is the name of a file below /proc/PID, for messages.
func (p *Process) path(name string) string { return "/proc/" + strconv.Itoa(p.pid) + "/" + name }
