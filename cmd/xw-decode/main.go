// Command xw-decode turns the perf records that xw-open copied out of the kernel's rings into events, in time order.
package main

import (
	"context"
	"io"
	"os"

	"xw/pkg/decode"
	"xw/pkg/stage"
	"xw/pkg/wire"
)

type flags struct {
	Text bool `help:"Write the stream as text."`
}

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	f := &flags{}
	return stage.Run(stage.Command{
		Name:    "xw-decode",
		Summary: "Decodes a raw stream to events: xw-open ... | xw-decode | xw-report",
		Flags:   f,
		Rule:    stage.Filter,
		Do:      func(_ context.Context, s *stage.Stage) error { return work(f, s) },
	}, args, stdin, stdout, stderr)
}

func work(f *flags, s *stage.Stage) error {
	if err := s.BinaryIn("xw-open ... | xw-decode, or xw-decode < FILE"); err != nil {
		return err
	}
	out, err := sink(f, s)
	if err != nil {
		return err
	}
	if err := s.WatchDownstream(); err != nil {
		return err
	}
	return decode.Run(wire.NewReader(s.Stdin), out)
}

func sink(f *flags, s *stage.Stage) (wire.Sink, error) {
	if f.Text {
		return wire.NewTextWriter(s.Stdout), nil
	}
	if err := s.BinaryOut("xw-decode | xw-report, or xw-decode --text"); err != nil {
		return nil, err
	}
	return wire.NewWriter(s.Stdout), nil
}
