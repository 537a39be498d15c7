package main

import (
	"errors"
	"fmt"
	"io"

	"xw/pkg/report"
	"xw/pkg/wire"
)

// input is a stream of events. Records that cannot be read and whose end is known are told of and left out.
type input struct {
	*wire.Reader
	name    string // of the file; "" for standard input
	close   func() error
	header  *wire.Header
	say     func(format string, args ...any)
	bad     func(error) // nil or told of each record left out
	skipped int
}

// next reads one record.
func (in *input) next() bool {
	for !in.Next() {
		err := in.Err()
		if !in.Recover() {
			return false
		}
		in.skipped++
		if in.skipped == 1 {
			in.say("%v", in.explain(err))
		}
		if in.bad != nil {
			in.bad(err)
		}
	}
	return true
}

// err tells what is wrong with a stream that was read to its end.
func (in *input) err() error {
	if err := in.Err(); err != nil {
		return in.explain(err)
	}
	if in.skipped > 0 {
		return in.explain(fmt.Errorf("read stream: %d records could not be read", in.skipped))
	}
	return nil
}

// copyJSONL writes one object for each record of all streams.
func copyJSONL(w io.Writer, ins *inputs) error {
	var errs []error
	for _, in := range ins.list {
		errs = append(errs, in.copyJSONL(w))
	}
	return errors.Join(errs...)
}

// copyJSONL writes one object for each record, at once when no more input is at hand.
func (in *input) copyJSONL(w io.Writer) error {
	j, err := report.NewJSONL(w, in.header)
	if err != nil {
		return err
	}
	for {
		if in.Buffered() == 0 {
			if err := j.Flush(); err != nil {
				return err
			}
		}
		if !in.next() {
			return errors.Join(in.err(), j.Flush())
		}
		if err := j.Write(in.Record()); err != nil {
			return err
		}
	}
}
