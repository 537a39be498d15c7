package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"xw/pkg/stage"
)

// output is where the report goes: standard output, or a file that appears when it is whole.
type output struct {
	path  string
	stage *stage.Stage
}

// write calls render once with the place to write to. What was rendered is kept even if render fails, since a truncated
// stream is one of its errors.
func (o *output) write(render func(io.Writer) error) error {
	if o.path == "" {
		return render(o.stage.Stdout)
	}
	info, err := os.Stat(o.path)
	switch {
	case err == nil && info.IsDir():
		return fmt.Errorf("write report: %q is a directory", o.path)
	case err == nil && !info.Mode().IsRegular(): // a pipe or device cannot be replaced
		return o.writeInto(render)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("write report: %w", err)
	}
	return o.replace(render)
}

func (o *output) writeInto(render func(io.Writer) error) error {
	f, err := os.OpenFile(o.path, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return errors.Join(render(f), f.Close())
}

// replace writes a file beside the wanted one and gives it its name when it is whole.
func (o *output) replace(render func(io.Writer) error) error {
	f, err := createBeside(o.path)
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	defer os.Remove(f.Name()) // of no effect once it is renamed
	sink := &fileSink{f: f}
	rendered := render(sink)
	if err := errors.Join(sink.err, f.Close()); err != nil {
		return fmt.Errorf("write report: %q: %w", o.path, err)
	}
	if err := os.Rename(f.Name(), o.path); err != nil {
		return errors.Join(rendered, fmt.Errorf("write report: %w", err))
	}
	return rendered
}

// createBeside makes a file in the directory of path, with the permissions that path would get: os.CreateTemp makes
// files for their owner alone.
func createBeside(path string) (*os.File, error) {
	dir, base := filepath.Split(path)
	for i := 0; ; i++ {
		name := filepath.Join(dir, fmt.Sprintf(".%s.%d-%d", base, os.Getpid(), i))
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) || i == 100 {
			return f, err
		}
	}
}

// fileSink remembers the error of a write, which leaves the file incomplete.
type fileSink struct {
	f   *os.File
	err error
}

func (s *fileSink) Write(p []byte) (int, error) {
	n, err := s.f.Write(p)
	if err != nil && s.err == nil {
		s.err = err
	}
	return n, err
}
