//go:build !linux

package proc

import (
	"io"
	"os"
	"time"
)

// Process is a live process; there is none but on Linux.
type Process struct{}

// Open fails with ErrUnsupported.
func Open(int) (*Process, error) { return nil, ErrUnsupported }

// PID is 0.
func (p *Process) PID() int { return 0 }

// GivenTID is 0.
func (p *Process) GivenTID() int { return 0 }

// PidFD is -1.
func (p *Process) PidFD() int { return -1 }

// Start is 0.
func (p *Process) Start() uint64 { return 0 }

// Birth is 0.
func (p *Process) Birth() uint64 { return 0 }

// Exe is empty.
func (p *Process) Exe() Exe { return Exe{} }

// Comm is empty.
func (p *Process) Comm() string { return "" }

// Argv is empty.
func (p *Process) Argv() []string { return nil }

// Bits is 0.
func (p *Process) Bits() int { return 0 }

// NSPID is 0.
func (p *Process) NSPID() int { return 0 }

// Status is empty.
func (p *Process) Status() Status { return Status{} }

// Exited is true.
func (p *Process) Exited() bool { return true }

// Verify fails with ErrUnsupported.
func (p *Process) Verify() error { return ErrUnsupported }

// TracerPID is 0.
func (p *Process) TracerPID() (int, string) { return 0, "" }

// HoldMM fails with ErrUnsupported.
func (p *Process) HoldMM() (io.Closer, error) { return nil, ErrUnsupported }

// Tasks fails with ErrUnsupported.
func (p *Process) Tasks() ([]Task, error) { return nil, ErrUnsupported }

// Maps fails with ErrUnsupported.
func (p *Process) Maps() ([]Mapping, error) { return nil, ErrUnsupported }

// Auxv fails with ErrUnsupported.
func (p *Process) Auxv() (map[uint64]uint64, error) { return nil, ErrUnsupported }

// ReadAt fails with ErrUnsupported.
func (p *Process) ReadAt([]byte, int64) (int, error) { return 0, ErrUnsupported }

// OpenMapped fails with ErrUnsupported.
func (p *Process) OpenMapped(Mapping) (*os.File, error) { return nil, ErrUnsupported }

// RootPath is the path itself.
func (p *Process) RootPath(path string) string { return path }

// Others fails with ErrUnsupported.
func (p *Process) Others([]Range) (others, unreadable int, err error) { return 0, 0, ErrUnsupported }

// Close does nothing.
func (p *Process) Close() error { return nil }

// Sharers fails: see Open.
func (p *Process) Sharers() ([]int, error) { return nil, ErrUnsupported }

// TaskClock fails: see Open.
func (p *Process) TaskClock(int) (state byte, ran time.Duration, err error) {
	return 0, 0, ErrUnsupported
}
