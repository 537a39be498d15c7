package rebind

import (
	"errors"
	"fmt"
	"io"

	"xw/pkg/wire"
)

// errNotFollowed is the error at the end of a stream whose header was complained about at its start.
var errNotFollowed = errors.New("no chain was followed")

// Options are what Run may do without.
type Options struct {
	Memory Memory                           // see NewMachine
	Say    func(format string, args ...any) // takes messages for people
}

// Run passes all records of an events stream on to out, untouched, and follows the chains of its session: commands go
// to control, each in one Write, which must not block, and for each level that was moved a rebind record is added. out
// is flushed whenever the input has no whole record at hand. A control that fails ends the following only: Run passes on
// what comes and returns the failure at the end.
func Run(in *wire.Reader, out wire.Sink, control io.Writer, opts Options) error {
	if opts.Say == nil {
		opts.Say = func(string, ...any) {}
	}
	if !in.Next() {
		return in.Err()
	}
	header := in.Record().(*wire.Header) // the Reader sees to that
	if header.Stream != wire.Events {
		return &streamError{header.Stream}
	}
	commands := controlStream{w: control, enc: newEncoder()}
	m, unusable := NewMachine(&header.Session, commands.send, opts.Memory, opts.Say)
	if unusable != nil {
		opts.Say("%v", unusable)
		unusable = errNotFollowed
		m = &Machine{}
	}
	f := filter{in: in, out: out, machine: m}
	err := f.pass()
	return errors.Join(unusable, m.Lost(), err)
}

// filter is what Run works with after the header.
type filter struct {
	in      *wire.Reader
	out     wire.Sink
	machine *Machine
	bad     error // the first record that could not be read
}

// pass passes on the record at hand and all that follow.
func (f *filter) pass() error {
	if err := f.out.WriteRaw(f.in.Raw()); err != nil {
		return err
	}
	for {
		if f.in.Buffered() == 0 {
			if err := f.out.Flush(); err != nil {
				return err
			}
		}
		if err := f.next(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
	}
	if !f.in.Ended() {
		if err := f.add(f.machine.Finish()); err != nil {
			return err
		}
	}
	if err := f.out.Flush(); err != nil {
		return err
	}
	return errors.Join(f.bad, f.in.Err())
}

// next passes on one record; it returns io.EOF when the input has none any more.
func (f *filter) next() error {
	if f.in.Next() {
		return f.record(f.in.Record())
	}
	err := f.in.Err()
	if err == nil || !f.in.Recover() {
		return io.EOF
	}
	if f.bad == nil {
		f.bad = err
	}
	return f.malformed(err)
}

// record passes on the record at hand. What it means for the chains comes first: while out blocks, a command would
// wait.
func (f *filter) record(r wire.Record) error {
	added := f.machine.Take(r)
	_, isEnd := r.(*wire.End)
	if isEnd {
		if err := f.add(added); err != nil {
			return err
		}
	}
	if err := f.out.WriteRaw(f.in.Raw()); err != nil {
		return err
	}
	if isEnd {
		return nil
	}
	return f.add(added)
}

func (f *filter) add(records []wire.Record) error {
	for _, r := range records {
		if err := f.out.Write(r); err != nil {
			return err
		}
	}
	return nil
}

// maxKept is how many bytes of a bad record are passed on.
const maxKept = 256

// malformed passes on, in the place of a record that could not be read, a record that says so.
func (f *filter) malformed(cause error) error {
	raw := f.in.Raw()
	r := &wire.Malformed{Offset: uint64(f.in.Offset()), Available: uint64(len(raw)), Reason: cause.Error(),
		Bin: raw[:min(len(raw), maxKept)]}
	added := f.machine.Take(r)
	if err := f.out.Write(r); err != nil {
		return err
	}
	return f.add(added)
}

// streamError is input that xw-rebind is not made for.
type streamError struct{ stream string }

func (e *streamError) Error() string {
	return fmt.Sprintf("read stream: the stream is %s, not %s", e.stream, wire.Events)
}

// Hint says what to type instead.
func (e *streamError) Hint() string {
	if e.stream == wire.Raw {
		return "xw-open ... | xw-decode | xw-rebind ..."
	}
	return ""
}
