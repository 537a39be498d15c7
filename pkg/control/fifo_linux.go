package control

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"xw/pkg/wire"
)

// FIFO is the reading end. It has one owner and is not for concurrent use.
type FIFO struct {
	path string
	fd   int
	made bool
	dev  uint64
	ino  uint64

	// What a Read needs is kept for the next one: new memory would cost more time than all else that it does.
	buf    []byte
	parser wire.Parser
}

// Open opens the FIFO at path, and makes it if there is nothing: mode 0600, owned by the user who called sudo, if one
// did. An existing one must be a FIFO, owned by this process's user, root or that user, and writable by nobody else;
// a symbolic link is not followed.
func Open(path string) (*FIFO, error) {
	f := &FIFO{path: path, fd: -1}
	err := unix.Mkfifo(path, 0o600)
	switch {
	case err == nil:
		f.made = true
	case !errors.Is(err, unix.EEXIST):
		return nil, fmt.Errorf("make control FIFO: %q: %w", path, err)
	}
	if err := f.open(); err != nil {
		return nil, err
	}
	if uid, ok := sudoUser(); ok && f.made {
		if err := unix.Fchown(f.fd, uid, -1); err != nil {
			f.Close()
			return nil, fmt.Errorf("give control FIFO to user %d: %q: %w", uid, path, err)
		}
	}
	return f, nil
}

// open opens path and checks what it opened.
func (f *FIFO) open() error {
	fd, err := unix.Open(f.path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ELOOP) {
		err = errors.New("it is a symbolic link")
	}
	if err != nil {
		return fmt.Errorf("open control FIFO: %q: %w", f.path, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err == nil {
		err = f.accept(&st)
		if err == nil {
			f.fd, f.dev, f.ino = fd, st.Dev, st.Ino
			return nil
		}
		unix.Close(fd)
		return fmt.Errorf("open control FIFO: %q: %w", f.path, err)
	}
	unix.Close(fd)
	return fmt.Errorf("look at control FIFO: %q: %w", f.path, err)
}

// accept says why an opened file will not do.
func (f *FIFO) accept(st *unix.Stat_t) error {
	if st.Mode&unix.S_IFMT != unix.S_IFIFO {
		return errors.New("it exists and is no FIFO")
	}
	if st.Mode&0o022 != 0 {
		return fmt.Errorf("others may write to it (mode %#o): chmod go-w", st.Mode&0o777)
	}
	uid, sudo := sudoUser()
	if owner := int(st.Uid); owner != os.Geteuid() && owner != 0 && !(sudo && owner == uid) {
		return fmt.Errorf("it belongs to user %d", owner)
	}
	if f.fd >= 0 && (st.Dev != f.dev || st.Ino != f.ino) {
		return errors.New("another FIFO has taken its place")
	}
	return nil
}

// sudoUser is the user who called sudo.
func sudoUser() (int, bool) {
	if os.Geteuid() != 0 {
		return 0, false
	}
	uid, err := strconv.Atoi(os.Getenv("SUDO_UID"))
	return uid, err == nil && uid > 0
}

// Fd is the descriptor to poll: readable when commands have come or the writer has gone. It changes when a writer has gone.
func (f *FIFO) Fd() int { return f.fd }

// Read takes what has arrived. gone says that the last writer has closed the FIFO: it was then opened anew, for the
// next one.
func (f *FIFO) Read() (messages []Message, gone bool, err error) {
	const (
		block = 4 << 10
		most  = 64 << 10 // what one Read takes at most, and a pipe holds
	)
	more := true // may follow
	for more && len(f.buf) < most {
		f.buf = slices.Grow(f.buf, block)
		n, err := unix.Read(f.fd, f.buf[len(f.buf):len(f.buf)+block])
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			more = false
		case err != nil:
			return f.take(false), false, fmt.Errorf("read control FIFO: %q: %w", f.path, err)
		case n == 0:
			return f.take(false), true, f.reopen()
		default:
			f.buf = f.buf[:len(f.buf)+n]
		}
	}
	return f.take(more), false, nil
}

// take cuts what was read into messages, and keeps what is left over.
func (f *FIFO) take(more bool) []Message {
	messages, rest := parse(&f.parser, f.buf, more)
	f.buf = f.buf[:copy(f.buf, rest)]
	return messages
}

// reopen opens the same FIFO again: a new descriptor does not report the hang-up of a writer that came before it.
func (f *FIFO) reopen() error {
	old := f.fd
	if err := f.open(); err != nil {
		return err
	}
	unix.Close(old)
	return nil
}

// Close closes the FIFO, and removes it if Open made it.
func (f *FIFO) Close() {
	if f.fd >= 0 {
		unix.Close(f.fd)
	}
	var st unix.Stat_t
	if f.made && unix.Lstat(f.path, &st) == nil && st.Dev == f.dev && st.Ino == f.ino {
		_ = unix.Unlink(f.path) // what is left of it does no harm
	}
}
