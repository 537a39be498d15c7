package stage

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// isTerminal tells whether f, a reader or writer, is a terminal (tcgetattr(3)).
func isTerminal(f any) bool {
	terminal := false
	control(f, func(fd int) {
		_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		terminal = err == nil
	})
	return terminal
}

// terminalSize is the number of columns and lines of f (ioctl_tty(2), TIOCGWINSZ), 0 if unknown.
func terminalSize(f any) (width, height int) {
	control(f, func(fd int) {
		if size, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ); err == nil {
			width, height = int(size.Col), int(size.Row)
		}
	})
	return width, height
}

// control calls do with the descriptor of f if f is a file. The descriptor stays open meanwhile, and its mode, which
// other processes may share, stays as it is (File.Fd would change it).
func control(f any, do func(fd int)) {
	file, ok := f.(*os.File)
	if !ok {
		return
	}
	if conn, err := file.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { do(int(fd)) }) // fails for a closed file, which is no terminal
	}
}

// whenReaderGone calls gone once when nobody can read any more what is written to f. stop ends the watch, after which
// gone is not called.
//
// poll(2) reports POLLERR for the write end of a pipe without readers, and POLLHUP for a socket or a terminal that was
// hung up, even if no events are asked for. A goroutine waits there, and for the end of a pipe of its own to be closed.
func whenReaderGone(f *os.File, gone func()) (stop func(), err error) {
	stopped, stopper, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		isGone := false
		control(f, func(fd int) {
			control(stopped, func(stopped int) { isGone = pollGone(fd, stopped) })
		})
		if isGone {
			gone()
		}
	}()
	return func() {
		stopper.Close()
		<-ended
		stopped.Close()
	}, nil
}

// pollGone waits until fd has no reader (true) or the pipe stopped has no writer (false).
func pollGone(fd, stopped int) bool {
	for {
		fds := []unix.PollFd{{Fd: int32(fd)}, {Fd: int32(stopped)}}
		_, err := unix.Poll(fds, -1)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil || fds[1].Revents != 0:
			return false
		case fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0:
			return true
		case fds[0].Revents != 0:
			return false // not a descriptor that poll can watch
		}
	}
}

// canWriteNow tells whether writeNow works for f: only a pipe takes a small write whole or not at all.
func canWriteNow(f *os.File) (can bool) {
	control(f, func(fd int) {
		var st unix.Stat_t
		can = unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO
	})
	return can
}

// pipeBuf is PIPE_BUF: a write of as much goes into a pipe whole or not at all (pipe(7)).
const pipeBuf = 4096

// writeNow writes to a pipe without waiting for room: n is the length of b, or 0 if there was none. RWF_NOWAIT asks for
// that for one write, where O_NONBLOCK would ask for it for all who hold the pipe (pwritev2(2); for pipes since Linux 6.4,
// before which it is EOPNOTSUPP).
func writeNow(f *os.File, b []byte) (n int, err error) {
	if len(b) > pipeBuf {
		return 0, nil
	}
	control(f, func(fd int) { n, err = unix.Pwritev2(fd, [][]byte{b}, -1, unix.RWF_NOWAIT) })
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINTR) {
		return 0, nil
	}
	return n, err
}
