// Package decode turns a raw stream, the perf records as they came out of the rings, into an events stream: one record
// per event, in time order. What cannot be decoded becomes a record too.
//
// The raw stream is trusted with nothing: any bytes give an error or malformed records, in bounded memory.
package decode

import (
	"fmt"

	"xw/pkg/perfabi"
	"xw/pkg/wire"
)

// Run reads the raw stream in and writes the events stream to out until in ends.
//
// Records are released in time order, up to T when ["round", T] is read, and all that is left before the totals and at
// the end. Each time the input has run dry, out is flushed.
//
// The error is in's or out's. After one of in's everything that was good has been written, only no end record.
func Run(in *wire.Reader, out wire.Sink) error {
	return newDecoder(in, out).run()
}

type decoder struct {
	in         *wire.Reader
	out        wire.Sink
	read       uint64 // bytes of the raw stream in binary form before the current record
	maxPending int

	bad error // what was wrong with the input first

	slots    []uint32 // watch of each slot, the slots of all watches laid end to end
	startNS  uint64
	sources  sources
	bindings []bindings // of each watch
	names    names
	codes    codes

	arena   arena
	order   order
	rings   []*ring  // by CPU
	late    []uint32 // the CPUs whose rings have late records
	others  queue    // pending records of the raw stream
	horizon uint64   // everything up to this time has been released

	perf   scratch
	hit    perfabi.Hit
	code   code
	sample wire.Sample
	chain  []uint64 // memory of sample.Callchain
}

// scratch is what perf records are decoded into.
type scratch struct {
	sample      perfabi.Sample
	lost        perfabi.Lost
	lostSamples perfabi.LostSamples
	comm        perfabi.Comm
	task        perfabi.Task
	throttle    perfabi.Throttle
	mmap2       perfabi.Mmap2
}

func newDecoder(in *wire.Reader, out wire.Sink) *decoder {
	return &decoder{in: in, out: out, maxPending: maxPending, sources: newSources(), names: newNames(), codes: newCodes()}
}

func (d *decoder) run() error {
	if !d.in.Next() {
		return d.in.Err()
	}
	if err := d.header(d.in.Record().(*wire.Header)); err != nil {
		return err
	}
	if err := d.body(); err != nil {
		return err
	}
	if err := d.releaseAll(); err != nil {
		return err
	}
	if err := d.out.Flush(); err != nil {
		return err
	}
	return d.bad
}

func (d *decoder) header(h *wire.Header) error {
	if h.Stream != wire.Raw {
		return fmt.Errorf("decode: the input is the stream %q, expected %q", h.Stream, wire.Raw)
	}
	d.read = uint64(len(d.in.Raw()))
	d.startNS = h.Session.StartNS
	d.bindings = make([]bindings, len(h.Session.Watches))
	for i, w := range h.Session.Watches {
		for range w.Slots {
			d.slots = append(d.slots, uint32(i))
		}
		d.bindings[i].start(&w)
	}
	h.Session.SampleFields = wire.SampleFields()
	return d.out.Write(&wire.Header{Version: wire.Version, Stream: wire.Events, Session: h.Session})
}

// body handles the records after the header. The error is of the output.
func (d *decoder) body() error {
	for {
		if d.in.Buffered() == 0 {
			if err := d.out.Flush(); err != nil {
				return err
			}
		}
		if d.in.Next() {
			if err := d.record(d.in.Record()); err != nil {
				return err
			}
		} else if cause := d.in.Err(); cause == nil {
			return nil
		} else if !d.in.Recover() {
			d.fail(cause)
			return nil
		} else if err := d.refuse(cause); err != nil {
			return err
		}
		d.read += uint64(len(d.in.Raw()))
	}
}

// fail remembers that the input is not what it should be.
func (d *decoder) fail(cause error) {
	if d.bad == nil {
		d.bad = cause
	}
}

// refuse writes that the current record of the raw stream is not what it should be.
func (d *decoder) refuse(cause error) error {
	d.fail(cause)
	return d.malformed(d.read, d.in.Raw(), cause)
}

// record handles one record of the raw stream.
func (d *decoder) record(r wire.Record) error {
	switch r := r.(type) {
	case *wire.Chunk:
		return d.chunk(r)
	case *wire.Round:
		return d.round(r.T)
	case *wire.Source:
		if err := d.sources.add(r); err != nil {
			return d.refuse(err)
		}
		return nil
	case *wire.Bound:
		d.bind(r)
		return d.hold(r.Time)
	case *wire.Check:
		return d.hold(r.Time)
	case *wire.Map:
		return d.mapped(r)
	case *wire.Thread:
		d.names.set(r.TID, []byte(r.Comm))
	case *wire.Counts:
		if err := d.releaseAll(); err != nil {
			return err
		}
	case *wire.End:
		if d.bad != nil {
			return nil
		}
		if err := d.releaseAll(); err != nil {
			return err
		}
	}
	return d.out.WriteRaw(d.in.Raw())
}

// mapped writes a mapping that the target had at attach.
func (d *decoder) mapped(r *wire.Map) error {
	if r.End < r.Start {
		return d.refuse(fmt.Errorf("decode: map record: it ends at %#x, before its start %#x", r.End, r.Start))
	}
	return d.out.Write(&wire.Mmap{Time: d.startNS, PID: r.PID, TID: r.PID, Start: r.Start, Len: r.End - r.Start,
		Offset: r.Offset, Prot: r.Prot, Path: r.Path, BuildID: r.BuildID})
}
