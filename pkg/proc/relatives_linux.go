package proc

import (
	"fmt"
	"os"
	"slices"
)

// TIDs lists the thread ids that the task directory has now, in one pass and unsorted: see Tasks for a settled list. A
// main thread that has ended before the others, and stays listed as a zombie until they have, is left out.
func (p *Process) TIDs() ([]int, error) {
	tids, err := p.tids()
	if err != nil {
		return nil, err
	}
	if st, err := p.stat(""); err == nil && st.gone() {
		tids = slices.DeleteFunc(tids, func(tid int) bool { return tid == p.pid })
	}
	return tids, nil
}

// Relation is what a process that the target created has to do with the target's memory.
type Relation int

// Relations.
const (
	Unclear Relation = iota // it has ended or executed a program: what it was before cannot be told
	Sharer                  // it has the same memory (vfork, clone with CLONE_VM)
	Copy                    // it has a copy of its own (fork)
)

// Relation tells what a child process shares with p now, by kcmp(2) and the flags in its stat file.
func (p *Process) Relation(child int) Relation {
	switch {
	case p.sharesMemory(child):
		return Sharer
	case forkedNoExec(child):
		return Copy
	}
	return Unclear
}

// forkedNoExec reports whether a process is alive and still runs the program it was forked with. One that is ending may have
// given up the memory it had, so that it shares none with anybody.
func forkedNoExec(pid int) bool {
	const pfExiting, pfForkNoExec = 0x04, 0x40 // PF_EXITING, PF_FORKNOEXEC of linux/sched.h
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	st, err := parseStat(b)
	return err == nil && st.flags&(pfForkNoExec|pfExiting) == pfForkNoExec
}
