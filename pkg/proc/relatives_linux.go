package proc

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// TIDs lists the thread ids that the task directory has now, in one pass and unsorted: see Tasks for a settled list.
func (p *Process) TIDs() ([]int, error) { return p.tids() }

// Relation is what a process that the target created has to do with the target's memory.
type Relation int

// Relations.
const (
	Unclear Relation = iota // it has ended or executed a program: what it was before cannot be told
	Sharer                  // it has the same memory (vfork, clone with CLONE_VM)
	Copy                    // it has a copy of its own (fork)
)

// Relation tells what a child process shares with p now, by kcmp(2) and the PF_FORKNOEXEC flag of its stat file.
func (p *Process) Relation(child int) Relation {
	switch {
	case p.sharesMemory(child):
		return Sharer
	case forkedNoExec(child):
		return Copy
	}
	return Unclear
}

// forkedNoExec reports whether a process still runs the program it was forked with.
func forkedNoExec(pid int) bool {
	const (
		flagsField   = 6    // after the command name: state ppid pgrp session tty_nr tpgid flags
		pfForkNoExec = 0x40 // PF_FORKNOEXEC of linux/sched.h
	)
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(b[strings.LastIndexByte(string(b), ')')+1:]), " ")
	fields := strings.Fields(rest)
	if len(fields) <= flagsField {
		return false
	}
	flags, err := strconv.ParseUint(fields[flagsField], 10, 64)
	return err == nil && flags&pfForkNoExec != 0
}
