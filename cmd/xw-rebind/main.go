// Command xw-rebind follows the pointers of dependent watches: it reads which slots were written and tells xw-open where
// to watch instead.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"xw/pkg/rebind"
	"xw/pkg/stage"
	"xw/pkg/wire"
)

type flags struct {
	Control        string         `required:"" placeholder:"FIFO" help:"The FIFO that xw-open --control listens on."`
	ConnectTimeout stage.Duration `default:"10s" help:"How long to wait until xw-open listens. (${default})"`
	Mem            string         `placeholder:"FILE" help:"For tests: take from FILE (lines of ADDR VALUE [TIME]) what xw-open would be asked to read."`
	Text           bool           `help:"Write the stream as text."`
}

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	f := &flags{}
	return stage.Run(stage.Command{
		Name: "xw-rebind",
		Summary: "Follows the pointers of dependent watches: " +
			"xw-open --control FIFO ... | xw-decode | xw-rebind --control FIFO | xw-report",
		Flags: f,
		Rule:  stage.Filter,
		Do:    func(_ context.Context, s *stage.Stage) error { return follow(f, s) },
	}, args, stdin, stdout, stderr)
}

func follow(f *flags, s *stage.Stage) error {
	if err := s.BinaryIn("xw-open ... | xw-decode | xw-rebind ..."); err != nil {
		return err
	}
	var out wire.Sink = wire.NewTextWriter(s.Stdout)
	if !f.Text {
		if err := s.BinaryOut("xw-rebind ... | xw-report, or xw-rebind --text ..."); err != nil {
			return err
		}
		out = wire.NewWriter(s.Stdout)
	}
	if err := s.WatchDownstream(); err != nil {
		return err
	}
	opts := rebind.Options{Say: s.Say}
	if f.Mem != "" {
		memory, err := fixture(f.Mem)
		if err != nil {
			return err
		}
		opts.Memory = memory
	}
	control, err := openFIFO(f.Control, time.Duration(f.ConnectTimeout))
	if err != nil {
		return err
	}
	defer control.Close()
	return rebind.Run(wire.NewReader(s.Stdin), out, control, opts)
}

func fixture(path string) (*rebind.Fixture, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read memory: %w", err)
	}
	defer file.Close()
	return rebind.ParseFixture(file)
}
