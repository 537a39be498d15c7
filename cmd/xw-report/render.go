package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"xw/pkg/report"
	"xw/pkg/stage"
)

// renderModel reads the streams into a model and renders that when they end.
func renderModel(ctx context.Context, f *flags, s *stage.Stage, ins *inputs, out *output) error {
	first := ins.list[0].header
	symbols := report.NewSymbols(&first.Session, f.Symfs)
	defer symbols.Close()
	m, err := report.New(first, report.Options{Symbols: symbols, Op: f.Op})
	if err != nil {
		return err
	}
	streamErr, err := ins.readAll(m, f, s)
	if errors.Is(context.Cause(ctx), stage.ErrDownstreamClosed) {
		return stage.ErrDownstreamClosed
	}
	if err != nil {
		return err
	}
	r := m.Report()
	err = out.write(func(w io.Writer) error { return render(w, f, s, r) })
	return errors.Join(err, streamErr)
}

// readAll reads the streams one after the other. streamErr says what is wrong with those that were read all the same.
func (ins *inputs) readAll(m *report.Model, f *flags, s *stage.Stage) (streamErr, err error) {
	if !f.Live {
		defer ins.bar()()
	}
	var errs []error
	for i, in := range ins.list {
		if i > 0 {
			if err := m.Continue(in.header); err != nil {
				return nil, in.explain(err)
			}
		}
		in.bad = m.Malformed
		in.into(m, f, s)
		m.Finish(in.Err())
		errs = append(errs, in.err())
		if err := m.Err(); err != nil {
			return nil, in.explain(err)
		}
	}
	return errors.Join(errs...), nil
}

// into reads a stream into a model.
func (in *input) into(m *report.Model, f *flags, s *stage.Stage) {
	if f.Live {
		follow(m, f, s, in)
		return
	}
	for in.next() {
		m.Add(in.Record())
	}
}

func render(w io.Writer, f *flags, s *stage.Stage, r *report.Report) error {
	switch f.Format {
	case "text":
		return report.TextReport(w, r, textOptions(f, s))
	case "json":
		return report.JSON(w, r)
	case "html":
		return report.HTMLReport(w, r, int(f.Top))
	case "pprof":
		return report.Pprof(w, r)
	case "folded":
		return report.Folded(w, r)
	}
	return fmt.Errorf("write report: no format %q", f.Format)
}

// textOptions lays the text out for where it goes: a file is no terminal.
func textOptions(f *flags, s *stage.Stage) report.TextOptions {
	o := report.TextOptions{Top: int(f.Top), Callchain: f.Callchain, Color: f.Color == "always"}
	if f.Output == "" {
		o.Width, o.Color = s.Width(), s.Color(f.Color)
	}
	return o
}
