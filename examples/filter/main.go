// Command filter stands between xw-decode and xw-report and takes out the samples that left the value as it was, so that
// the report shows who changes the variable and not who stores the same again:
//
//	xw-open --pid 1234 --watch counter | xw-decode | go run ./examples/filter | xw-report
//
// It is meant to be copied: the rules that a filter should follow are in FORMAT.md.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"xw/pkg/wire"
)

func main() {
	// Ctrl-C reaches the whole pipe. A filter goes on until its input ends, so that the report is printed.
	signal.Ignore(os.Interrupt)
	// A write to a closed pipe is then an error and no longer ends the process.
	signal.Ignore(syscall.SIGPIPE)
	err := filter(os.Stdin, os.Stdout)
	if err != nil && !errors.Is(err, syscall.EPIPE) {
		fmt.Fprintln(os.Stderr, "filter:", err)
		os.Exit(1)
	}
}

// slot is one hardware watchpoint: a watch that is longer than 8 bytes has several, each with a value of its own.
type slot struct {
	watch uint32
	addr  uint64
}

// filter copies the events stream in to out, without the samples whose value is that of the slot's sample before.
func filter(in io.Reader, out io.Writer) error {
	r, w := wire.NewReader(in), wire.NewWriter(out)
	last := map[slot]uint64{}
	for r.Next() {
		if err := pass(w, r, last); err != nil {
			return err
		}
		if r.Buffered() == 0 { // the next record is not here yet, and someone waits for those that are
			if err := w.Flush(); err != nil {
				return err
			}
		}
	}
	// What was good before an error is passed on all the same.
	if err := w.Flush(); err != nil {
		return err
	}
	return r.Err()
}

// pass writes the record that r has read, if it is to stay. Raw keeps what a later version of xw added to it.
func pass(w *wire.Writer, r *wire.Reader, last map[slot]uint64) error {
	switch rec := r.Record().(type) {
	case *wire.Header:
		if rec.Stream != wire.Events {
			return fmt.Errorf("the input is the stream %q, expected %q: put the filter after xw-decode", rec.Stream, wire.Events)
		}
		if err := w.WriteRaw(r.Raw()); err != nil {
			return err
		}
		return w.Write(&wire.Note{Time: rec.Session.StartNS, Text: "samples that left the value as it was are filtered out"})
	case *wire.Sample:
		at := slot{rec.Watch, rec.Addr}
		if before, ok := last[at]; rec.Value.OK && ok && before == rec.Value.V {
			return nil
		}
		if rec.Value.OK {
			last[at] = rec.Value.V
		}
	}
	return w.WriteRaw(r.Raw())
}
