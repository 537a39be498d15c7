package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"xw/pkg/report"
	"xw/pkg/stage"
	"xw/pkg/wire"
)

// renderModel reads the stream into a model and renders that when the stream ends.
func renderModel(ctx context.Context, f *flags, s *stage.Stage, header *wire.Header, in *input, out *output) error {
	symbols := report.NewSymbols(&header.Session, f.Symfs)
	defer symbols.Close()
	m, err := report.New(header, report.Options{Symbols: symbols, Op: f.Op})
	if err != nil {
		return err
	}
	in.bad = m.Malformed
	if f.Live {
		follow(m, f, s, in)
	} else {
		for in.next() {
			m.Add(in.Record())
		}
	}
	streamErr := in.err()
	if errors.Is(context.Cause(ctx), stage.ErrDownstreamClosed) {
		return stage.ErrDownstreamClosed
	}
	m.Finish(in.Err())
	r := m.Report()
	err = out.write(func(w io.Writer) error { return render(w, f, s, r) })
	return errors.Join(err, streamErr)
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
