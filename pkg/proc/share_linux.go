package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

func addressOf(page []byte) uint64 { return uint64(uintptr(unsafe.Pointer(&page[0]))) }

// Others counts the other processes whose own memory has a mapping that an access to one of the ranges could hit: the
// caller's own among them, and copies made by fork; those that share this process's memory (vfork) are not. unreadable
// is the number of processes whose mappings the caller may not see.
func (p *Process) Others(ranges []Range) (others, unreadable int, err error) {
	names, err := os.ReadDir("/proc")
	if err != nil {
		return 0, 0, fmt.Errorf("list processes: %w", err)
	}
	for _, name := range names {
		pid, err := strconv.Atoi(name.Name())
		if err != nil || pid == p.pid {
			continue
		}
		tid, maps, err := mappingsOf(pid)
		switch {
		case errors.Is(err, fs.ErrPermission):
			unreadable++
		case err == nil && hit(maps, ranges) && !p.sharesMemory(tid):
			others++
		}
	}
	return others, unreadable, nil
}

// mappingsOf reads the mappings of a process through its leader, or else through the first thread that has any.
func mappingsOf(pid int) (tid int, maps []Mapping, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, nil, err
	}
	if len(b) > 0 {
		maps, err = parseMaps(b)
		return pid, maps, err
	}
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return 0, nil, err
	}
	for _, task := range tasks {
		tid, err := strconv.Atoi(task.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/maps", pid, tid))
		if err == nil && len(b) > 0 {
			maps, err = parseMaps(b)
			return tid, maps, err
		}
	}
	return pid, nil, nil
}

func hit(maps []Mapping, ranges []Range) bool {
	for _, m := range maps {
		if slices.ContainsFunc(ranges, func(r Range) bool {
			return r.Start < m.End && m.Start < r.End && m.Prot&r.Prot == r.Prot
		}) {
			return true
		}
	}
	return false
}

// sharesMemory reports whether the task has the same memory as the process, by kcmp(2). Where that is not permitted the two
// count as different.
func (p *Process) sharesMemory(tid int) bool {
	const kcmpVM = 1 // KCMP_VM of linux/kcmp.h
	d, err := p.liveDir()
	if err != nil {
		return false
	}
	r, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(p.tidOf(d)), uintptr(tid), kcmpVM, 0, 0, 0)
	return errno == 0 && r == 0
}

// Sharers lists the threads of other processes that have the same memory as the process, as vfork(2) and clone(2) with
// CLONE_VM make them. What the caller may not compare is left out.
func (p *Process) Sharers() ([]int, error) {
	names, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var tids []int
	for _, name := range names {
		pid, err := strconv.Atoi(name.Name())
		if err != nil || pid == p.pid || !p.sharesMemory(pid) {
			continue
		}
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			continue // it has ended
		}
		for _, task := range tasks {
			if tid, err := strconv.Atoi(task.Name()); err == nil {
				tids = append(tids, tid)
			}
		}
	}
	return tids, nil
}
