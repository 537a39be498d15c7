//go:build amd64

package session

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"xw/pkg/watch"
	"xw/pkg/wire"
)

// files is the output into files: one, or with a size to rotate at the newest of a row of them, each a whole stream.
// After newFiles it belongs to the goroutine that writes, but for what rotate says.
type files struct {
	path   string
	rotate uint64 // bytes after which the next file is begun; 0 for one file
	keep   int
	file   *os.File
	number int
}

// newFiles opens the first file.
func newFiles(path string, rotate uint64, keep int) (*files, error) {
	f := &files{path: path, rotate: rotate, keep: keep}
	return f, f.open()
}

// name is the path of a file of the row: FILE.1, FILE.2... The numbers only grow, so that a reader can follow them.
func (f *files) name(number int) string {
	if f.rotate == 0 {
		return f.path
	}
	return fmt.Sprintf("%s.%d", f.path, number)
}

// create opens a file to write, empty. Nobody else may read it, since it holds what a process had in memory or to say,
// and a symbolic link is not followed, since xw-open may be root.
func create(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	var cause *fs.PathError
	switch {
	case errors.Is(err, syscall.ELOOP):
		err = errors.New("it is a symbolic link")
	case errors.As(err, &cause):
		err = cause.Err
	}
	if err != nil {
		return nil, fmt.Errorf("open output: %q: %w", path, err)
	}
	return f, nil
}

// open begins the next file.
func (f *files) open() (err error) {
	f.number++
	if f.file, err = create(f.name(f.number)); err != nil {
		return err
	}
	if old := f.number - f.keep; f.rotate > 0 && old > 0 {
		if err := os.Remove(f.name(old)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove old output: %w", err)
		}
	}
	return nil
}

// next closes the present file and begins another one.
func (f *files) next() error {
	if err := f.close(); err != nil {
		return err
	}
	return f.open()
}

func (f *files) close() error {
	if err := f.file.Close(); err != nil {
		return fmt.Errorf("close output: %w", err)
	}
	return nil
}

// StopRotated is the stop reason in the end record of a file that another one follows.
const StopRotated = "rotated"

// maybeRotate ends the present file and begins another one when it has its size.
func (r *run) maybeRotate() {
	if r.files == nil || r.files.rotate == 0 || r.pipe.written() < r.files.rotate || r.reason != "" {
		return
	}
	if err := r.rotateFile(); err != nil {
		r.stop(StopError, err)
	}
}

// rotateFile writes the end of one stream and the beginning of another. The kernel's count cannot be held against one
// file while hits go on: a file counts what went into it and what was lost, and the last one counts the rest, so that
// the sum is the kernel's.
func (r *run) rotateFile() error {
	now := watch.Now()
	for i := range r.watches {
		c, err := r.countSoFar(i, now)
		if err != nil {
			return err
		}
		r.out.write(c)
	}
	r.out.write(&wire.End{Info: wire.EndInfo{StopReason: StopRotated, EndNS: now, ElapsedNS: now - r.start, ThreadsSeen: uint64(r.set.Info().Threads) + r.set.Born()}})
	r.out.flush()
	if err := r.pipe.between(r.files.next); err != nil {
		return err
	}
	r.pipe.count.Store(0)
	r.start = now
	r.sights.forget()
	for _, l := range r.chains.levels {
		if l.inChain {
			r.bounds = append(r.bounds, l.bound)
		}
	}
	return r.writeHead(r.set.Sources())
}

// countSoFar counts what a file has of a watch, and adds it to what the files before have.
func (r *run) countSoFar(i int, now uint64) (*wire.Counts, error) {
	c := &wire.Counts{Time: now, Watch: uint32(i)}
	var err error
	r.eachSlot(i, func(slot int) error {
		lost, lostErr := r.set.Lost(slot)
		err = errors.Join(err, lostErr)
		c.Emitted += r.set.Delivered(slot)
		c.Lost += lost
		return nil
	})
	past := &r.past[i]
	c.Emitted, past.Emitted = c.Emitted-past.Emitted, c.Emitted
	c.Lost, past.Lost = c.Lost-past.Lost, c.Lost
	c.Counted = c.Emitted + c.Lost
	past.Counted += c.Counted
	return c, err
}
