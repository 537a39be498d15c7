package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync/atomic"

	"xw/pkg/report"
	"xw/pkg/stage"
	"xw/pkg/wire"
)

// inputs are the streams that one report is made of, in the order of their time.
type inputs struct {
	list []*input
	size int64 // bytes of all, 0 if that is unknown
	read atomic.Int64
	bar  func() (stop func())
}

// openInputs opens the named files, or standard input if there are none, and reads their headers.
func openInputs(ctx context.Context, f *flags, s *stage.Stage) (*inputs, error) {
	ins := &inputs{}
	ins.bar = func() func() { return s.Progress(ins.progress) }
	if len(f.Files) == 0 {
		return ins, ins.openStdin(f, s)
	}
	known := true
	for _, name := range f.Files {
		file, err := os.Open(name)
		if err != nil {
			return ins, fmt.Errorf("read stream: %w", err)
		}
		size := stage.Size(file)
		ins.size += size
		known = known && size > 0
		in := &input{name: name, close: file.Close, say: s.Say}
		var source io.Reader = &untilDone{ctx, file}
		if size == 0 { // a pipe, say, of which a read may hang
			source = s.Interruptible(file)
		}
		in.Reader = wire.NewReader(&counted{source, &ins.read})
		ins.list = append(ins.list, in)
		if err := in.open(); err != nil {
			return ins, err
		}
	}
	if !known {
		ins.size = 0
	}
	slices.SortStableFunc(ins.list, func(a, b *input) int {
		return cmp.Compare(a.header.Session.StartNS, b.header.Session.StartNS)
	})
	return ins, ins.check()
}

func (ins *inputs) openStdin(f *flags, s *stage.Stage) error {
	if err := s.BinaryIn("xw-open ... | xw-decode | xw-report"); err != nil {
		return err
	}
	ins.size = s.StdinSize()
	var source io.Reader = &counted{s.Stdin, &ins.read}
	if f.Live {
		source = newSpool(source)
	}
	in := &input{Reader: wire.NewReader(source), say: s.Say}
	ins.list = []*input{in}
	return in.open()
}

// check refuses streams that cannot be added up before any of them is read.
func (ins *inputs) check() error {
	first := ins.list[0]
	for _, in := range ins.list[1:] {
		if err := report.SameTarget(&first.header.Session, &in.header.Session); err != nil {
			return fmt.Errorf("add up %q and %q: %w", first.name, in.name, err)
		}
	}
	return nil
}

// close closes the files.
func (ins *inputs) close() {
	for _, in := range ins.list {
		if in.close != nil {
			_ = in.close() // it was only read
		}
	}
}

// progress says how far long input has been read.
func (ins *inputs) progress() string {
	const mib = 1 << 20
	switch read := ins.read.Load(); {
	case max(read, ins.size) < 16*mib:
		return ""
	case ins.size > 0:
		return fmt.Sprintf("read %d of %d MiB, %d%%", read/mib, ins.size/mib, 100*read/ins.size)
	default:
		return fmt.Sprintf("read %d MiB", read/mib)
	}
}

// untilDone reads a file until the context is done.
type untilDone struct {
	ctx context.Context
	r   io.Reader
}

func (u *untilDone) Read(p []byte) (int, error) {
	if u.ctx.Err() != nil {
		return 0, context.Cause(u.ctx)
	}
	return u.r.Read(p)
}

// counted counts what is read.
type counted struct {
	r io.Reader
	n *atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// open reads the header, which must be that of a stream of events.
func (in *input) open() error {
	if !in.Next() {
		return in.explain(in.Err())
	}
	h, ok := in.Record().(*wire.Header)
	switch {
	case !ok:
		return in.explain(fmt.Errorf("read stream: it begins with %q and not with a header", in.Record().Kind()))
	case h.Stream != wire.Events:
		err := in.explain(&report.StreamError{Stream: h.Stream})
		if h.Stream != wire.Raw {
			return err
		}
		return stage.WithHint(err, "%s", in.decodeHint())
	}
	in.header = h
	return nil
}

func (in *input) decodeHint() string {
	if in.name == "" {
		return "xw-open ... | xw-decode | xw-report"
	}
	return fmt.Sprintf("xw-decode < %s | xw-report", in.name)
}

// explain says which file an error is of.
func (in *input) explain(err error) error {
	if in.name == "" || err == nil {
		return err
	}
	var path *os.PathError
	if errors.As(err, &path) { // it has the name
		return err
	}
	return fmt.Errorf("%q: %w", in.name, err)
}
