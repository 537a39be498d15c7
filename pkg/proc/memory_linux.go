package proc

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// openMaps opens the maps of the live thread whose directory is d and proves that they are not empty: the kernel opens
// them for a task without memory, too.
func (p *Process) openMaps(d string) (*os.File, error) {
	f, err := p.open(d + "maps")
	if err != nil {
		return nil, err
	}
	var b [1]byte
	if n, err := f.ReadAt(b[:], 0); n == 0 {
		f.Close()
		if errors.Is(err, io.EOF) {
			err = errNoMemory
		}
		return nil, p.pathError("read", d+"maps", err)
	}
	return f, nil
}

// Maps lists the mappings by address, as they are now.
func (p *Process) Maps() ([]Mapping, error) {
	var maps []Mapping
	err := p.live(func(d string) error {
		b, err := p.read(d + "maps")
		if err != nil {
			return err
		}
		if len(b) == 0 {
			return p.pathError("read", d+"maps", errNoMemory)
		}
		maps, err = parseMaps(b)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list mappings: process %d: %w", p.pid, err)
	}
	for i := range maps {
		m := &maps[i]
		if m.Deleted && p.isFile(m.Path+" (deleted)", m.Dev, m.Inode) {
			m.Path, m.Deleted = m.Path+" (deleted)", false
		}
	}
	return maps, nil
}

// ReadAt reads the process's memory at address off, an io.ReaderAt. What cannot be read is an error and never zeros:
// matching fs.ErrPermission where Yama or another user's process forbids it, EFAULT where nothing is mapped. A page that
// the process itself may not read is read all the same where ptrace could.
func (p *Process) ReadAt(b []byte, off int64) (int, error) {
	done := 0
	err := p.live(func(d string) error {
		if done == len(b) {
			return nil
		}
		n, err := p.readv(d, b[done:], uint64(off)+uint64(done))
		if done += n; done == len(b) {
			return nil
		}
		n, memErr := p.readMem(d, b[done:], off+int64(done))
		if done += n; done == len(b) {
			return nil
		}
		if gone(err) || gone(memErr) {
			return memErr
		}
		return err
	})
	if err != nil {
		return done, fmt.Errorf("read memory: process %d at 0x%x: %w", p.pid, uint64(off)+uint64(done), err)
	}
	return done, nil
}

// readv is process_vm_readv. It names the thread by number: one that has ended may have handed its number on, so the
// answer counts only if the thread is still there afterwards.
func (p *Process) readv(d string, b []byte, addr uint64) (int, error) {
	local := []unix.Iovec{{Base: &b[0]}}
	local[0].SetLen(len(b))
	n, err := unix.ProcessVMReadv(p.tidOf(d), local, []unix.RemoteIovec{{Base: uintptr(addr), Len: len(b)}}, 0)
	if err == nil && n < len(b) {
		err = unix.EFAULT
	}
	if d == "" {
		if p.Exited() {
			return 0, unix.ESRCH
		}
	} else if st, statErr := p.stat(d); statErr != nil || st.gone() {
		return 0, unix.ESRCH
	}
	return max(n, 0), err
}

// readMem reads /proc/PID/mem, which also gives what the process itself may not read.
func (p *Process) readMem(d string, b []byte, addr int64) (int, error) {
	f, err := p.open(d + "mem")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	n, err := f.ReadAt(b, addr)
	if n == 0 && errors.Is(err, io.EOF) {
		err = errNoMemory
	}
	return n, err
}

// Auxv returns the auxiliary vector that the kernel gave the program, by the AT_* numbers of getauxval(3).
func (p *Process) Auxv() (map[uint64]uint64, error) {
	var b []byte
	err := p.live(func(d string) (err error) {
		b, err = p.read(d + "auxv")
		if err == nil && len(b) == 0 {
			err = p.pathError("read", d+"auxv", errNoMemory)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read auxiliary vector: process %d: %w", p.pid, err)
	}
	return parseAuxv(b, p.bits/8), nil
}
