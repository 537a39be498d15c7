package stage

import "golang.org/x/sys/unix"

// widePipe is how much the pipe that a command reads may hold: 1 MiB, what everybody may ask for (fs.pipe-max-size, pipe(7)).
// With the 64 KiB that a pipe has at first, two stages take turns more than they work side by side: decoding and reporting a
// file took a quarter longer.
const widePipe = 1 << 20

// widen gives the pipe f, if it is one, more room. Where that is refused it stays as it is.
func widen(f any) {
	control(f, func(fd int) {
		if size, err := unix.FcntlInt(uintptr(fd), unix.F_GETPIPE_SZ, 0); err == nil && size < widePipe {
			_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, widePipe) // beyond the user's share of pipe memory it is refused
		}
	})
}
