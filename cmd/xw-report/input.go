package main

import (
	"errors"
	"fmt"
	"io"

	"xw/pkg/report"
	"xw/pkg/wire"
)

// input is the stream of events. Records that cannot be read and whose end is known are told of and left out.
type input struct {
	*wire.Reader
	say     func(format string, args ...any)
	bad     func(error) // nil or told of each record left out
	skipped int
}

// header reads the first record.
func (in *input) header() (*wire.Header, error) {
	if !in.Next() {
		return nil, in.Err()
	}
	h, ok := in.Record().(*wire.Header)
	if !ok {
		return nil, fmt.Errorf("read stream: it begins with %q and not with a header", in.Record().Kind())
	}
	return h, nil
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
			in.say("%v", err)
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
		return err
	}
	if in.skipped > 0 {
		return fmt.Errorf("read stream: %d records could not be read", in.skipped)
	}
	return nil
}

// copyJSONL writes one object for each record, at once when no more input is at hand.
func copyJSONL(w io.Writer, header *wire.Header, in *input) error {
	j, err := report.NewJSONL(w, header)
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
