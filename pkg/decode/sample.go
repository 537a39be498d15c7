package decode

import (
	"fmt"

	"xw/pkg/perfabi"
	"xw/pkg/wire"
)

// Origins of a hit.
const (
	originUser   = 0
	originKernel = 1
)

// sampleRecord writes a hit, and before it what it shows for the first time.
func (d *decoder) sampleRecord(e entry, src *source, rec []byte) error {
	s := &d.perf.sample
	if err := s.Decode(rec, &src.layout); err != nil {
		return d.malformed(e.seq, rec, err)
	}
	d.sample = wire.Sample{Time: e.time, CPU: e.cpu, PID: s.PID, TID: s.TID, IP: s.IP}
	if src.layout.SampleType&perfabi.SampleCPU != 0 { // the ring is a thread's
		d.sample.CPU = s.CPU
	}
	switch src.role {
	case roleOutput:
		if err := d.fromHit(s.Raw); err != nil {
			return d.malformed(e.seq, rec, err)
		}
		if err := d.news(); err != nil {
			return err
		}
	case roleBreakpoint:
		if err := d.fromBreakpoint(s, src); err != nil {
			return d.malformed(e.seq, rec, err)
		}
	default:
		return d.out.Write(&wire.Other{Type: perfabi.RecordSample, Size: e.size})
	}
	d.sample.Generation = d.bindings[d.sample.Watch].generation(d.sample.Addr, e.time)
	if d.sample.Regs == nil {
		d.sample.Regs = s.RegsIntr.General(src.layout.RegsIntr)
	}
	if s.Callchain != nil {
		d.chain = copyChain(d.chain, s.Callchain)
		d.sample.Callchain = d.chain
	}
	return d.out.Write(&d.sample)
}

// fromHit takes what the BPF program put into the sample.
func (d *decoder) fromHit(raw []byte) error {
	h := &d.hit
	if err := h.Parse(raw); err != nil {
		return err
	}
	if uint64(h.Slot) >= uint64(len(d.slots)) {
		return fmt.Errorf("hit of slot %d, the session has %d", h.Slot, len(d.slots))
	}
	s := &d.sample
	s.Watch, s.Addr, s.Origin = d.slots[h.Slot], h.Addr, originUser
	if h.Flags&perfabi.HitKernel != 0 {
		s.Origin = originKernel
	}
	s.Value = optional(h.Value, h.Flags&perfabi.HitValueValid != 0)
	s.UserIP = optional(h.UserIP, h.Flags&perfabi.HitUserContext != 0)
	s.Syscall = optional(h.Syscall, h.Flags&perfabi.HitInSyscall != 0)
	s.Child = optional(h.Child, h.Flags&perfabi.HitChildValid != 0)
	s.Regs = h.Regs
	return nil
}

func optional(v uint64, present bool) wire.Opt {
	if !present {
		return wire.Opt{}
	}
	return wire.Some(v)
}

// news writes the thread's name and the code around the ip of the hit where they are not yet known downstream.
func (d *decoder) news() error {
	s := &d.sample
	if n, isNew := d.names.learn(s.TID, d.hit.Comm); isNew {
		if err := d.out.Write(&wire.Comm{Time: s.Time, PID: s.PID, TID: s.TID, Comm: n.String()}); err != nil {
			return err
		}
	}
	if len(d.hit.Code) == 0 || d.codes.isRecent(s.IP, &d.hit) {
		return nil
	}
	c := &d.code
	c.set(s.IP, &d.hit)
	if !d.codes.learn(c) {
		return nil
	}
	return d.out.Write(&wire.Code{IP: c.ip, Start: c.start, Bin: c.bytes[:c.n]})
}

// fromBreakpoint takes what a sample of the watchpoint itself says.
func (d *decoder) fromBreakpoint(s *perfabi.Sample, src *source) error {
	if !src.watch.OK || src.watch.V >= uint64(len(d.bindings)) {
		return fmt.Errorf("its source names no watch of the %d there are", len(d.bindings))
	}
	d.sample.Watch, d.sample.Addr, d.sample.Origin = uint32(src.watch.V), s.Addr, originUser
	if s.Misc&perfabi.MiscCPUModeMask == perfabi.MiscKernel {
		d.sample.Origin = originKernel
		ip, ok := s.RegsUser.Reg(src.layout.RegsUser, perfabi.RegIP)
		d.sample.UserIP = optional(ip, ok)
	}
	return nil
}

// copyChain takes the user part of a call chain. The kernel sets a mark before each part; without marks all is taken.
func copyChain(dst []uint64, chain perfabi.Words) []uint64 {
	dst = dst[:0]
	user := true
	for i := range chain.Len() {
		ip := chain.At(i)
		switch {
		case ip >= perfabi.ContextMax:
			user = ip == perfabi.ContextUser
		case user:
			dst = append(dst, ip)
		}
	}
	return dst
}
