package proc

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// RootPath is the name by which the caller reaches a file that the process calls path, also in another mount namespace or
// root directory.
func (p *Process) RootPath(path string) string { return p.path("root") + path }

// OpenMapped opens the file of a mapping, whose content may have no name any more. It tries the mapping itself, the
// program's own link, and the names it can have; a name counts only if device and inode agree.
func (p *Process) OpenMapped(m Mapping) (*os.File, error) {
	if !m.File() {
		return nil, fmt.Errorf("open mapped file: %s: %w", m, ErrNotFile)
	}
	var first error
	for _, name := range p.mappedNames(m) {
		f, err := openRegular(name)
		if err == nil {
			if isMapped(f, m.Dev, m.Inode) {
				return f, nil
			}
			f.Close()
			err = fmt.Errorf("%s: another file: %w", name, os.ErrNotExist)
		}
		if first == nil || errors.Is(first, os.ErrPermission) {
			first = err
		}
	}
	return nil, fmt.Errorf("open mapped file: process %d: %q: %w", p.pid, m.Path, first)
}

// openRegular opens a regular file. Others are not opened at all: with a device that alone can have effects.
func openRegular(name string) (*os.File, error) {
	f, err := os.OpenFile(name, unix.O_PATH, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", name)
	}
	return os.Open(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
}

// mappedNames lists where the file of a mapping can be opened. The map_files directory works for any file but wants
// CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE; it exists for threads, too, below their own number. The kernel writes names
// as seen from the reader's root where they can be reached from there, else as seen in their own mount namespace.
func (p *Process) mappedNames(m Mapping) []string {
	var names []string
	if d, err := p.liveDir(); err == nil {
		names = append(names, fmt.Sprintf("/proc/%d/map_files/%x-%x", p.tidOf(d), m.Start, m.End))
		if m.Path == p.exe.Path {
			names = append(names, p.path(d+"exe"))
		}
	}
	if !m.Deleted {
		names = append(names, p.RootPath(m.Path), m.Path)
	}
	return names
}

// isFile reports whether the process's name for a file leads to the one with the given device and inode.
func (p *Process) isFile(path string, dev, inode uint64) bool {
	for _, name := range []string{p.RootPath(path), path} {
		f, err := os.OpenFile(name, unix.O_PATH, 0)
		if err != nil {
			continue
		}
		same := sameInode(f, dev, inode)
		f.Close()
		if same {
			return true
		}
	}
	return false
}

func sameInode(f *os.File, dev, inode uint64) bool {
	var st unix.Stat_t
	return unix.Fstat(int(f.Fd()), &st) == nil && st.Dev == dev && st.Ino == inode
}

// isMapped reports whether a mapping of f would show the given device and inode in /proc/PID/maps. Some file systems
// (btrfs, overlayfs) show another device there than fstat does: then the caller maps f itself and looks.
func isMapped(f *os.File, dev, inode uint64) bool {
	if sameInode(f, dev, inode) {
		return true
	}
	page, err := unix.Mmap(int(f.Fd()), 0, 1, unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		return false
	}
	defer unix.Munmap(page)
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return false
	}
	maps, err := parseMaps(b)
	if err != nil {
		return false
	}
	addr := addressOf(page)
	for _, m := range maps {
		if m.Contains(addr) {
			return m.Dev == dev && m.Inode == inode
		}
	}
	return false
}
