package decode

import (
	"fmt"
	"math"
	"slices"

	"xw/pkg/perfabi"
	"xw/pkg/wire"
)

// maxPending bounds the memory of records that wait for their round, in bytes. Beyond it the oldest are released early,
// and what turns out to be older still is late. A round holds more only if the rings do: two of 4 MiB each on 32 CPUs.
const maxPending = 256 << 20

// maxCPU bounds CPU numbers; no architecture's kernel can be built for more.
const maxCPU = 1 << 16

// ring is what there is to know of one CPU's ring.
type ring struct {
	queue
	last uint64 // time of its last record that had one
	late uint64 // records since the last round that were older than what had been released
}

// chunk takes the records of a ring in.
func (d *decoder) chunk(c *wire.Chunk) error {
	if c.CPU >= maxCPU {
		return d.refuse(fmt.Errorf("decode: chunk record: cpu %d, the highest possible is %d", c.CPU, maxCPU-1))
	}
	if len(c.Bin) == 0 {
		return nil
	}
	at := d.read + uint64(len(d.in.Raw())-len(c.Bin))
	r := d.ring(c.CPU)
	p := d.arena.put(c.Bin, countRecords(c.Bin))
	for rest := c.Bin; len(rest) > 0; {
		rec, whole := firstRecord(rest)
		e := entry{seq: at, place: p, size: uint32(len(rec)), cpu: c.CPU}
		e.time, e.source = d.stamp(r, rec, whole)
		if e.time < d.horizon {
			if r.late++; r.late == 1 {
				d.late = append(d.late, c.CPU)
			}
		}
		d.order.add(&r.queue, e)
		rest = rest[len(rec):]
		at += uint64(len(rec))
		p.off += uint32(len(rec))
	}
	return d.relieve()
}

// countRecords is into how many records firstRecord cuts b.
func countRecords(b []byte) (n int) {
	for ; len(b) > 0; n++ {
		rec, _ := firstRecord(b)
		b = b[len(rec):]
	}
	return n
}

// firstRecord is the record at the start of b. Where there is no whole one it is all of b: the place of the next is not
// known.
func firstRecord(b []byte) (rec []byte, whole bool) {
	if len(b) < perfabi.HeaderSize {
		return b, false
	}
	size := int(perfabi.PeekSize(b))
	if size < perfabi.HeaderSize || size > len(b) {
		return b, false
	}
	return b[:size], true
}

func (d *decoder) ring(cpu uint32) *ring {
	for uint32(len(d.rings)) <= cpu {
		d.rings = append(d.rings, nil)
	}
	if d.rings[cpu] == nil {
		d.rings[cpu] = &ring{}
	}
	return d.rings[cpu]
}

// stamp is the time that a record is ordered by and its source. A record that has no time goes after the one before it
// in its ring, and is never late.
func (d *decoder) stamp(r *ring, rec []byte, whole bool) (time uint64, source int32) {
	source = unknownSource
	if whole {
		source = d.sources.of(rec)
	}
	if source != unknownSource {
		sampleType := d.sources.list[source].layout.SampleType
		if t, ok := perfabi.PeekTime(rec, sampleType); ok && sampleType&perfabi.SampleTime != 0 {
			r.last = t
			return t, source
		}
	}
	return max(r.last, d.horizon), source
}

// hold puts the current record among the pending ones.
func (d *decoder) hold(time uint64) error {
	raw := d.in.Raw()
	d.order.add(&d.others, entry{time: time, seq: d.read, place: d.arena.put(raw, 1), size: uint32(len(raw)), source: passOn})
	return d.relieve()
}

// relieve releases the oldest records while the pending ones take too much memory.
func (d *decoder) relieve() error {
	for d.arena.held+d.order.count*entrySize > d.maxPending {
		if more, err := d.releaseNext(math.MaxUint64); !more || err != nil {
			return err
		}
	}
	return nil
}

// round releases what is not younger than t.
func (d *decoder) round(t uint64) error {
	if err := d.releaseUpTo(t); err != nil {
		return err
	}
	d.horizon = max(d.horizon, t)
	return nil
}

func (d *decoder) releaseAll() error { return d.releaseUpTo(math.MaxUint64) }

func (d *decoder) releaseUpTo(t uint64) error {
	if err := d.tellLate(); err != nil {
		return err
	}
	for {
		if more, err := d.releaseNext(t); !more || err != nil {
			return err
		}
	}
}

// tellLate counts what is about to be released too late.
func (d *decoder) tellLate() error {
	slices.Sort(d.late)
	for _, cpu := range d.late {
		if err := d.out.Write(&wire.Late{CPU: cpu, N: d.rings[cpu].late}); err != nil {
			return err
		}
		d.rings[cpu].late = 0
	}
	d.late = d.late[:0]
	return nil
}

// releaseNext writes what the first pending record stands for, if its time is not after limit.
func (d *decoder) releaseNext(limit uint64) (more bool, err error) {
	e, more := d.order.next(limit)
	if !more {
		return false, nil
	}
	d.horizon = max(d.horizon, e.time)
	rec := d.arena.bytes(e.place, e.size)
	if e.source == passOn {
		err = d.out.WriteRaw(rec)
	} else {
		err = d.perfRecord(e, rec)
	}
	d.arena.drop(e.place)
	return true, err
}
