package proc

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// open opens a file below /proc/PID.
func (p *Process) open(name string) (*os.File, error) {
	for {
		fd, err := unix.Openat(p.dir, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, p.pathError("open", name, err)
		}
		return os.NewFile(uintptr(fd), p.path(name)), nil
	}
}

func (p *Process) pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: p.path(name), Err: err}
}

func (p *Process) read(name string) ([]byte, error) {
	f, err := p.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// stat reads the stat file of the task directory d, "" for the leader's.
func (p *Process) stat(d string) (stat, error) {
	b, err := p.read(d + "stat")
	if err != nil {
		return stat{}, err
	}
	s, err := parseStat(b)
	if err != nil {
		return stat{}, fmt.Errorf("read %s: %w", p.path(d+"stat"), err)
	}
	return s, nil
}

// gone reports whether err says that the task, or its memory, is no more.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) || errors.Is(err, errNoMemory)
}

// errNoMemory is the answer of a task that has given up its memory and still has a name.
var errNoMemory = errors.New("no memory")

// live calls f with the directory, relative to /proc/PID, of a thread that runs: the leader's, or when that has ended by
// pthread_exit another one's. A thread may end at any moment: then the next one is tried. One that is ending gives up its
// memory some time before it shows as ended; a process that does is waited for.
func (p *Process) live(f func(dir string) error) error {
	var err error
	const attempts, ms = 16, 5
	for range attempts {
		var d string
		if d, err = p.liveDir(); err != nil {
			return err
		}
		if err = f(d); err == nil || !gone(err) {
			return err
		}
		if p.exitedWithin(ms) {
			return ErrExited
		}
	}
	return err
}

func (p *Process) liveDir() (string, error) {
	leader, err := p.stat("")
	if err != nil {
		if gone(err) {
			return "", ErrExited
		}
		return "", err
	}
	if !leader.gone() {
		return "", nil
	}
	tids, err := p.tids()
	if err != nil {
		return "", err
	}
	for _, tid := range tids {
		d := taskDir(tid)
		if st, err := p.stat(d); err == nil && !st.gone() {
			return d, nil
		}
	}
	return "", ErrExited
}

func taskDir(tid int) string { return "task/" + strconv.Itoa(tid) + "/" }

// tidOf is the thread whose directory is d, as liveDir gives it.
func (p *Process) tidOf(d string) int {
	tid, err := strconv.Atoi(strings.Trim(d, "task/"))
	if err != nil {
		return p.pid
	}
	return tid
}

// tids reads the task directory once.
func (p *Process) tids() ([]int, error) {
	f, err := p.open("task")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil && !gone(err) {
		return nil, err
	}
	tids := make([]int, 0, len(names))
	for _, name := range names {
		if tid, err := strconv.Atoi(name); err == nil {
			tids = append(tids, tid)
		}
	}
	return tids, nil
}

type taskKey struct {
	tid   int
	start uint64
}

// maxPasses bounds Tasks for a process that creates threads faster than they can be listed.
const maxPasses = 64

// Tasks lists the threads that run, by thread id. It reads the task directory until a whole pass finds nothing new, and at
// most 64 times: the threads of a process that never settles must be taken from fork records. The passes are merged,
// since one pass can leave out a thread when an earlier one ends while the directory is read. Those that have ended
// meanwhile may be among the result. No thread left is an error that names the directory and matches ErrExited.
func (p *Process) Tasks() ([]Task, error) {
	found := map[taskKey]Task{}
	for range maxPasses {
		n, err := p.taskPass(found)
		if err != nil {
			return nil, fmt.Errorf("list threads: %w", err)
		}
		if n == 0 {
			break
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("list threads: %s: no live thread: %w", p.path("task"), ErrExited)
	}
	byTID := func(a, b Task) int { return cmp.Or(cmp.Compare(a.TID, b.TID), cmp.Compare(a.Start, b.Start)) }
	return slices.SortedFunc(maps.Values(found), byTID), nil
}

// taskPass adds to found the threads that it lacks and returns their number.
func (p *Process) taskPass(found map[taskKey]Task) (int, error) {
	tids, err := p.tids()
	if err != nil && !gone(err) {
		return 0, err
	}
	before := len(found)
	for _, tid := range tids {
		st, err := p.stat(taskDir(tid))
		switch {
		case err != nil && gone(err):
			continue
		case err != nil:
			return 0, err
		case st.gone():
			continue
		}
		found[taskKey{tid, st.start}] = Task{TID: tid, Comm: st.comm, State: st.state, Start: st.start, Birth: p.monotonic(st.start)}
	}
	return len(found) - before, nil
}

// TaskClock tells the state of a thread, as Task.State but Z and X too, and for how long it has run so far.
func (p *Process) TaskClock(tid int) (state byte, ran time.Duration, err error) {
	st, err := p.stat(taskDir(tid))
	if err != nil {
		return 0, 0, err
	}
	b, err := p.read(taskDir(tid) + "schedstat")
	if err != nil {
		return 0, 0, err
	}
	field, _, _ := strings.Cut(string(b), " ")
	ns, err := strconv.ParseUint(field, 10, 63)
	if err != nil {
		return 0, 0, fmt.Errorf("read %s: %q: %w", p.path(taskDir(tid)+"schedstat"), b, err)
	}
	return st.state, time.Duration(ns), nil
}
