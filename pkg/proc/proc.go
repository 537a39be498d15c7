// Package proc is a live process: its identity, threads, mappings and memory. It follows proc(5), pidfd_open(2) and
// process_vm_readv(2), and the kernel's fs/proc where those are silent. It needs Linux; elsewhere Open fails.
package proc

import (
	"errors"
	"fmt"
)

// Why a process cannot be opened, or is no longer the one that was.
var (
	// ErrUnsupported is the answer of every other operating system.
	ErrUnsupported = errors.New("unsupported_platform: hardware watchpoints require Linux on x86-64")
	// ErrNoProcess says that no process or thread has the number.
	ErrNoProcess = errors.New("no such process")
	// ErrKernelThread says that the number is a kernel thread's, which has no memory of its own.
	ErrKernelThread = errors.New("a kernel thread, it has no memory of its own")
	// ErrZombie says that every thread has ended and only the exit status is left.
	ErrZombie = errors.New("a zombie: it has ended and waits for its parent to take its exit status")
	// ErrExited says that the process ended after it was opened.
	ErrExited = errors.New("the process has ended")
	// ErrReplaced says that the process runs another program, or the same one anew, since it was opened.
	ErrReplaced = errors.New("the process has executed a program since it was first seen")
	// ErrNotFile says that a mapping is not of a file.
	ErrNotFile = errors.New("not a file's mapping")
)

// Protection bits of Mapping.Prot, as of mmap(2).
const (
	ProtRead  = 1
	ProtWrite = 2
	ProtExec  = 4
)

// Exe is the identity of a program file.
type Exe struct {
	Path    string // as the target's mount namespace has it, without the " (deleted)" mark
	Deleted bool   // the file has no name any more, or another file has taken it
	Dev     uint64 // st_dev
	Inode   uint64 // st_ino
}

// Same reports whether both are the same file, whatever its name.
func (e Exe) Same(o Exe) bool { return e.Dev == o.Dev && e.Inode == o.Inode }

// Task is one thread of a process. Thread ids are reused: TID and Start together name a thread.
type Task struct {
	TID   int
	Comm  string
	State byte   // R, S, D, T, t, I, P...; never Z or X
	Start uint64 // clock ticks of CLOCK_BOOTTIME, field 22 of /proc/PID/stat
	Birth uint64 // the same in ns of CLOCK_MONOTONIC, to the clock tick
}

// Mapping is one line of /proc/PID/maps.
type Mapping struct {
	Start   uint64
	End     uint64 // one past the last byte
	Offset  uint64 // bytes into the file
	Prot    uint32
	Shared  bool
	Dev     uint64 // of the file, as unix.Mkdev makes it; 0 without a file
	Inode   uint64 // 0 without a file
	Path    string // "" for anonymous memory; [heap], [stack], [vdso], [anon:NAME]; without the " (deleted)" mark
	Deleted bool   // the file has no name any more, or another file has taken it
}

// File reports whether the mapping is of a file, and not anonymous or made by the kernel.
func (m Mapping) File() bool { return m.Inode != 0 }

// Contains reports whether addr lies in the mapping.
func (m Mapping) Contains(addr uint64) bool { return m.Start <= addr && addr < m.End }

func (m Mapping) String() string {
	return fmt.Sprintf("%x-%x %s", m.Start, m.End, m.Path)
}

// Range is a range of addresses together with the protection that an access to it needs: a mapping that does not allow
// the access cannot be hit by it.
type Range struct {
	Start, End uint64 // End is one past the last
	Prot       uint32 // all of these bits
}

// Status is what messages about a process need of /proc/PID/status.
type Status struct {
	State string // for example "S (sleeping)"
	UID   int    // real user id
	EUID  int    // effective user id
}
