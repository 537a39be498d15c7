package decode

import (
	"errors"
	"fmt"

	"xw/pkg/perfabi"
	"xw/pkg/wire"
)

// perfRecord writes what a perf record stands for.
func (d *decoder) perfRecord(e entry, rec []byte) error {
	h, err := perfabi.ParseHeader(rec)
	if err != nil {
		return d.malformed(e.seq, rec, err)
	}
	if !decoded(h.Type) {
		return d.out.Write(&wire.Other{Type: h.Type, Size: uint32(h.Size)})
	}
	if e.source == unknownSource {
		return d.malformed(e.seq, rec, errUnknownEvent(rec))
	}
	src := &d.sources.list[e.source]
	if h.Type == perfabi.RecordSample {
		return d.sampleRecord(e, src, rec)
	}
	r, err := d.taskRecord(e, h, &src.layout, rec)
	if err != nil {
		return d.malformed(e.seq, rec, err)
	}
	return d.out.Write(r)
}

func decoded(typ uint32) bool {
	switch typ {
	case perfabi.RecordSample, perfabi.RecordLost, perfabi.RecordLostSamples, perfabi.RecordThrottle, perfabi.RecordUnthrottle,
		perfabi.RecordFork, perfabi.RecordExit, perfabi.RecordComm, perfabi.RecordMmap2:
		return true
	}
	return false
}

func errUnknownEvent(rec []byte) error {
	id, ok := perfabi.PeekID(rec)
	if !ok {
		return &perfabi.Error{Record: perfabi.PeekType(rec), Field: "id", Needed: perfabi.HeaderSize + 8, Available: uint64(len(rec))}
	}
	return fmt.Errorf("no source has the event id %d", id)
}

// taskRecord is what a perf record that is no sample stands for.
func (d *decoder) taskRecord(e entry, h perfabi.Header, l *perfabi.Layout, rec []byte) (wire.Record, error) {
	p := &d.perf
	switch h.Type {
	case perfabi.RecordLost:
		if err := p.lost.Decode(rec, l); err != nil {
			return nil, err
		}
		return &wire.Lost{Time: e.time, CPU: cpuOf(e, l, &p.lost.SampleID), N: p.lost.Lost}, nil
	case perfabi.RecordLostSamples:
		if err := p.lostSamples.Decode(rec, l); err != nil {
			return nil, err
		}
		return &wire.Lost{Time: e.time, CPU: cpuOf(e, l, &p.lostSamples.SampleID), N: p.lostSamples.Lost}, nil
	case perfabi.RecordThrottle, perfabi.RecordUnthrottle:
		if err := p.throttle.Decode(rec, l); err != nil {
			return nil, err
		}
		return &wire.Throttle{Time: e.time, CPU: e.cpu, Watch: d.watchOf(p.throttle.ID), On: h.Type == perfabi.RecordThrottle}, nil
	case perfabi.RecordFork:
		if err := p.task.Decode(rec, l); err != nil {
			return nil, err
		}
		delete(d.names, p.task.TID) // an earlier thread's of that id
		return &wire.Fork{Time: e.time, PID: p.task.PID, PPID: p.task.PPID, TID: p.task.TID, PTID: p.task.PTID}, nil
	case perfabi.RecordExit:
		if err := p.task.Decode(rec, l); err != nil {
			return nil, err
		}
		delete(d.names, p.task.TID)
		return &wire.Exit{Time: e.time, PID: p.task.PID, TID: p.task.TID}, nil
	case perfabi.RecordComm:
		if err := p.comm.Decode(rec, l); err != nil {
			return nil, err
		}
		return d.commRecord(e.time, &p.comm), nil
	default:
		if err := p.mmap2.Decode(rec, l); err != nil {
			return nil, err
		}
		m := &p.mmap2
		return &wire.Mmap{Time: e.time, PID: m.PID, TID: m.TID, Start: m.Addr, Len: m.Len, Offset: m.Offset, Prot: m.Prot,
			Flags: m.Flags, Path: string(m.Filename), BuildID: m.BuildID}, nil
	}
}

// cpuOf is the CPU that a record is of. The ring may be a thread's, which names none.
func cpuOf(e entry, l *perfabi.Layout, id *perfabi.SampleIDFields) uint32 {
	if l.SampleType&perfabi.SampleCPU != 0 {
		return id.CPU
	}
	return e.cpu
}

// commRecord is the new name of a thread, which an exec may have given it.
func (d *decoder) commRecord(time uint64, c *perfabi.Comm) wire.Record {
	d.names.set(c.TID, c.Comm)
	if c.Exec {
		return &wire.Exec{Time: time, PID: c.PID, TID: c.TID, Comm: string(c.Comm)}
	}
	return &wire.Comm{Time: time, PID: c.PID, TID: c.TID, Comm: string(c.Comm)}
}

// watchOf is the watch that an event belongs to alone.
func (d *decoder) watchOf(id uint64) wire.Opt {
	if i := d.sources.ofID(id); i != unknownSource {
		return d.sources.list[i].watch
	}
	return wire.Opt{}
}

// maxBin bounds the bytes of a record that a malformed record quotes.
const maxBin = 256

// malformed writes that the bytes at a position of the raw stream cannot be decoded.
func (d *decoder) malformed(at uint64, b []byte, cause error) error {
	m := wire.Malformed{Offset: at, Available: uint64(len(b)), Reason: cause.Error(), Bin: b[:min(len(b), maxBin)]}
	var short *perfabi.Error
	if errors.As(cause, &short) {
		m.Needed, m.Available = short.Needed, short.Available
	}
	return d.out.Write(&m)
}
