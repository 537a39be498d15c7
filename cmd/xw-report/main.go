// Command xw-report makes a report of an events stream.
package main

import (
	"context"
	"io"
	"os"

	"xw/pkg/stage"
)

type flags struct {
	Files []string `arg:"" optional:"" name:"file" help:"Streams of events to read instead of standard input; those of one target are added up."`

	Format    string       `default:"text" enum:"text,json,jsonl,html,pprof,folded" help:"${enum}; jsonl is one object for each record, as it arrives."`
	Output    string       `short:"o" placeholder:"FILE" help:"Write to FILE, which appears when it is whole."`
	Top       stage.Number `default:"20" placeholder:"N" help:"Show the first N entries of each list to people; 0 is all. (${default})"`
	Live      bool         `help:"Show a text report about once a second while the stream runs."`
	Symfs     string       `placeholder:"DIR" help:"Look for the target's files under DIR."`
	Color     string       `default:"auto" enum:"auto,always,never" help:"Colours: ${enum}."`
	Callchain bool         `help:"Show who called each site, by frame pointers."`
	Op        string       `default:"" enum:",r,w,rw" placeholder:"r|w|rw" help:"Show only sites that read, or that write."`
}

// Validate refuses what does not go together.
func (f *flags) Validate() error {
	switch {
	case f.Live && f.Format != "text":
		return stage.Usagef("--live shows text, not %s", f.Format)
	case f.Live && f.Output != "":
		return stage.Usagef("--live writes to standard output, not to a file")
	case f.Live && len(f.Files) > 0:
		return stage.Usagef("--live follows standard input, not files")
	}
	return nil
}

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	f := &flags{}
	return stage.Run(stage.Command{
		Name:    "xw-report",
		Summary: "Reads a stream of events and reports who accessed what: xw-open ... | xw-decode | xw-report",
		Flags:   f,
		Rule:    stage.Sink,
		Do:      func(ctx context.Context, s *stage.Stage) error { return work(ctx, f, s) },
	}, args, stdin, stdout, stderr)
}

func work(ctx context.Context, f *flags, s *stage.Stage) error {
	out := &output{path: f.Output, stage: s}
	if f.Output == "" {
		if f.Format == "pprof" {
			if err := s.BinaryOut("xw-report --format pprof -o FILE"); err != nil {
				return err
			}
		}
		if err := s.WatchDownstream(); err != nil {
			return err
		}
	}
	ins, err := openInputs(ctx, f, s)
	defer ins.close()
	if err != nil {
		return err
	}
	if f.Format == "jsonl" {
		return out.write(func(w io.Writer) error { return copyJSONL(w, ins) })
	}
	return renderModel(ctx, f, s, ins, out)
}
