//go:build amd64

package session

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"xw/pkg/perfabi"
	"xw/pkg/proc"
	"xw/pkg/symbol"
	"xw/pkg/watch"
	"xw/pkg/wire"
)

// header describes the session.
func (r *run) header() (*wire.Header, error) {
	info := r.set.Info()
	exe := r.proc.Exe()
	s := wire.Session{
		Target: wire.Target{PID: uint64(r.proc.PID()), Exe: exe.Path, Comm: r.proc.Comm(), Argv: r.proc.Argv(),
			Bits: uint64(r.proc.Bits()), NSID: uint64(r.proc.NSPID())},
		Scope: info.Scope, ScopeReason: info.ScopeReason, Values: info.Values, ValuesReason: info.ValuesReason,
		Kernel: info.Kernel, KernelReason: info.KernelReason,
		StartNS: r.start, RealtimeNS: realtimeAt(r.start), BootID: bootID(),
		Threads: uint64(info.Threads), Slots: uint64(r.slots()), Regs: []string{}, Callchain: r.cfg.Callchain,
		LatencyNS: uint64(r.cfg.Latency), RingSize: uint64(info.RingSize),
		Watches: r.watches, SampleFields: wire.SampleFields(), Notes: append(r.notes, info.Notes...),
	}
	if r.cfg.Regs {
		s.Regs = perfabi.GeneralNames()
	}
	if s.Notes == nil {
		s.Notes = []string{}
	}
	if r.proc.Bits() == 32 {
		s.Notes = append(s.Notes, "the target is a 32-bit process: registers are what the kernel gives for one")
	}
	return &wire.Header{Version: wire.Version, Stream: wire.Raw, Session: s}, nil
}

// realtimeAt converts a time of CLOCK_MONOTONIC to CLOCK_REALTIME.
func realtimeAt(mono uint64) uint64 {
	return uint64(time.Now().UnixNano()) - (watch.Now() - mono)
}

func (r *run) writeSource(src watch.Source) {
	rec := &wire.Source{Role: src.Role, SampleType: src.SampleType, RegsUser: src.RegsUser, RegsIntr: src.RegsIntr}
	if src.Role == "breakpoint" {
		s := slots(r.watches, 0)[src.Slot]
		rec.Watch, rec.Slot = wire.Some(uint64(s.Watch)), wire.Some(uint64(s.Index))
	}
	const idsPerRecord = 4096 // 32 KiB: a record has to stay under the reader's limit
	for ids := src.IDs; len(ids) > 0; {
		n := min(len(ids), idsPerRecord)
		rec.IDs = rec.IDs[:0]
		for _, id := range ids[:n] {
			rec.IDs = binary.LittleEndian.AppendUint64(rec.IDs, id)
		}
		r.out.write(rec)
		ids = ids[n:]
	}
}

func (r *run) writeThreads() error {
	tasks, err := r.proc.Tasks()
	if err != nil {
		return fmt.Errorf("list threads of process %d: %w", r.proc.PID(), err)
	}
	for _, t := range tasks {
		r.out.write(&wire.Thread{PID: uint32(r.proc.PID()), TID: uint32(t.TID), Birth: t.Birth, Comm: t.Comm})
	}
	return nil
}

// writeMaps records the mappings that code can be in and those of files, so that names resolve after the target is
// gone. Build ids say later whether a file is still the one that was mapped.
func (r *run) writeMaps() error {
	maps, err := r.proc.Maps()
	if err != nil {
		return fmt.Errorf("read mappings of process %d: %w", r.proc.PID(), err)
	}
	type file struct{ dev, inode uint64 }
	ids := map[file][]byte{}
	for _, m := range maps {
		if !m.File() && m.Prot&proc.ProtExec == 0 {
			continue
		}
		rec := &wire.Map{PID: uint32(r.proc.PID()), Start: m.Start, End: m.End, Offset: m.Offset, Path: m.Path, Prot: m.Prot}
		if m.File() {
			key := file{m.Dev, m.Inode}
			id, known := ids[key]
			if !known {
				id = r.buildID(m)
				ids[key] = id
			}
			rec.BuildID = id
		} else if m.Path == "[vdso]" {
			rec.BuildID = r.memoryBuildID(m)
		}
		r.out.write(rec)
	}
	return nil
}

// buildID reads a mapped file's build id; nil when it has none or cannot be read.
func (r *run) buildID(m proc.Mapping) []byte {
	f, err := r.proc.OpenMapped(m)
	if err != nil {
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil
	}
	elf, err := symbol.Open(f, info.Size())
	if err != nil {
		return nil
	}
	defer elf.Close()
	return elf.BuildID()
}

// memoryBuildID reads the build id of an ELF file that is nowhere but in memory, as the vdso is.
func (r *run) memoryBuildID(m proc.Mapping) []byte {
	size := int64(m.End - m.Start)
	elf, err := symbol.Open(io.NewSectionReader(r.proc, int64(m.Start), size), size)
	if err != nil {
		return nil
	}
	defer elf.Close()
	return elf.BuildID()
}

// writeCounts writes the totals of every watch.
func (r *run) writeCounts() {
	flat := slots(r.watches, 0)
	for i := range r.watches {
		c := &wire.Counts{Time: watch.Now(), Watch: uint32(i)}
		for j, s := range flat {
			if s.Watch != i {
				continue
			}
			t, err := r.set.Totals(j)
			if err != nil {
				r.stop(StopError, err)
				r.out.write(&wire.Gap{Time: watch.Now(), Reason: "count_mismatch", Watch: wire.Some(uint64(i)), Detail: err.Error()})
				continue
			}
			cut := r.set.Cut(j)
			c.Counted += t.Counted + t.Stopped
			c.Emitted += t.Emitted
			c.Lost += t.Lost
			c.Foreign += t.Foreign
			c.Missed += t.Missed
			c.AfterStop += cut + t.CutLost + t.Stopped
		}
		past := r.past[i]
		c.Counted -= min(c.Counted, past.Counted)
		c.Emitted -= min(c.Emitted, past.Emitted)
		c.Lost -= min(c.Lost, past.Lost)
		r.out.write(c)
	}
}

// writeGaps writes what is known not to have been seen.
func (r *run) writeGaps() {
	for _, g := range r.set.Gaps() {
		rec := &wire.Gap{Time: watch.Now(), Reason: "unwatched_task", Detail: g.Detail}
		if g.Kind != "" {
			rec.Reason, rec.Watch = g.Kind, wire.Some(uint64(slots(r.watches, 0)[g.Slot].Watch))
		}
		if g.TID != 0 {
			rec.TID = wire.Some(uint64(g.TID))
		}
		if g.From != 0 {
			rec.From = wire.Some(g.From)
		}
		if g.To != 0 {
			rec.To = wire.Some(g.To)
		}
		r.out.write(rec)
	}
}
