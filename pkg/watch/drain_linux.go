//go:build amd64

package watch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"xw/pkg/perfabi"
	"xw/pkg/proc"
)

// limit is the number of hits that may still be delivered, and what was delivered and cut per slot.
type limit struct {
	left      uint64 // meaningful with on
	on        bool
	delivered [MaxSlots]uint64
	cut       [MaxSlots]uint64
	lossy     bool             // losses were told of before all was delivered
	lost      [MaxSlots]uint64 // with lossy, the losses when all was delivered
}

// take accounts for one hit of a slot and says whether it may be delivered.
func (l *limit) take(slot int) bool {
	if l.on && l.left == 0 {
		l.cut[slot]++
		return false
	}
	if l.on {
		l.left--
	}
	l.delivered[slot]++
	return true
}

// Limit bounds the hits that Drain delivers from now on; the rest is counted by Cut.
func (s *Set) Limit(n uint64) { s.limit.on, s.limit.left = true, n }

// Full reports that the limit has been delivered.
func (s *Set) Full() bool { return s.limit.on && s.limit.left == 0 }

// Cut is the number of a slot's hits that Drain left out for the limit.
func (s *Set) Cut(slot int) uint64 { return s.limit.cut[slot] }

// Delivered is the number of a slot's hits that Drain has delivered.
func (s *Set) Delivered(slot int) uint64 { return s.limit.delivered[slot] }

// Fd is a descriptor to poll: readable when a ring has reached its watermark.
func (s *Set) Fd() int { return s.polls.fd }

// Drain takes what the rings hold now and hands each record that is the session's to emit, valid during the call
// only. It goes on while room says so; whole tells that every ring was emptied, and no program was at work in one.
func (s *Set) Drain(room func() bool, emit func(cpu int, rec []byte)) (whole bool, err error) {
	stopped, ask := false, room
	room = func() bool { // there may be room again later, when a ring has been left as it was
		stopped = stopped || !ask()
		return !stopped
	}
	for len(s.early) > 0 && room() {
		s.pass(s.early[0].cpu, s.early[0].rec, emit)
		s.early = s.early[1:]
	}
	s.polls.dropEnded()
	var errs []error
	if s.info.Scope == "cpu" && s.progs == nil {
		errs = append(errs, s.lookForExec())
	}
	busy, err := s.drainRings(room, func(ring int, rec []byte) {
		if s.look(rec) {
			s.pass(ring, rec, emit)
		}
	})
	errs = append(errs, err, s.scope.settle())
	return !stopped && !busy, errors.Join(errs...)
}

// drainRings yields the records that the rings hold now, while room says so, and frees their place. busy tells that a program
// was writing one.
func (s *Set) drainRings(room func() bool, each func(ring int, rec []byte)) (busy bool, err error) {
	var errs []error
	for _, r := range s.rings {
		errs = append(errs, drain(r.cursor, room, func(rec []byte) { each(r.number, rec) }))
	}
	if s.progs != nil {
		for _, r := range s.progs.hits {
			errs = append(errs, drain(r.cursor, room, func(rec []byte) { each(r.number, rec) }))
			busy = busy || r.cursor.Busy()
		}
	}
	return busy, errors.Join(errs...)
}

// maxEarly bounds the records that disarming holds back, in bytes.
const maxEarly = 32 << 20

// drainEarly takes what the rings hold while the watchpoints are switched off, so that fork records are seen; the next
// Drain delivers it.
func (s *Set) drainEarly() error {
	size := 0
	for _, r := range s.early {
		size += len(r.rec)
	}
	_, err := s.drainRings(func() bool { return size < maxEarly }, func(ring int, rec []byte) {
		if s.look(rec) {
			size += len(rec)
			s.early = append(s.early, record{cpu: ring, rec: append([]byte(nil), rec...)})
		}
	})
	return err
}

// drainWhileArming takes what the rings hold, from time to time, so that fork records are seen and none is lost. Nothing
// of it is the session's, whose threads and mappings are listed later.
func (s *Set) drainWhileArming() error {
	const interval = uint64(2 * time.Millisecond)
	if now := Now(); now-s.drained < interval {
		return nil
	}
	_, err := s.drainRings(func() bool { return true }, func(_ int, rec []byte) { s.look(rec) })
	s.drained = Now()
	return err
}

// look decides whether a record is the session's. Whatever cannot be read passes, for the decoder to complain about.
func (s *Set) look(rec []byte) bool {
	h, err := perfabi.ParseHeader(rec)
	if err != nil {
		return true
	}
	id, ok := perfabi.PeekID(rec)
	if !ok {
		return true
	}
	switch h.Type {
	case perfabi.RecordSample:
		src, known := s.sources[id]
		if !known || src.Role != "breakpoint" {
			return true // the programs have filtered already
		}
		if t, ok := perfabi.PeekTime(rec, src.SampleType); s.live == 0 || ok && t < s.live {
			s.plain[src.Slot].early++
			return false
		}
		pid, _, ok := perfabi.PeekTask(rec, src.SampleType)
		if ok && int(pid) != s.target.PID() || s.afterExec(rec, src) {
			s.plain[src.Slot].foreign++
			return false
		}
		s.plain[src.Slot].own++
		return true
	case perfabi.RecordFork, perfabi.RecordExit, perfabi.RecordComm, perfabi.RecordMmap2:
		return s.scope.observe(h, id, rec) && s.concernsTarget(h.Type, rec)
	case perfabi.RecordLost:
		return id == hitID || s.scope.observe(h, id, rec)
	}
	return true
}

// lookForExec finds out when the target has executed another program, in what the next drain is going to bring. Watchpoints
// on a CPU go on after that, and without programs, which compare the memory, only the time tells the new program's hits:
// they can be in another CPU's ring, which is drained first. What each ring is drained of is settled before any is looked
// at: an exec later than that has its hits in the next drain.
func (s *Set) lookForExec() error {
	if s.execed != 0 {
		return nil
	}
	for _, r := range s.rings {
		r.cursor.Begin()
	}
	for _, r := range s.rings {
		ahead, err := r.ahead()
		if err != nil {
			return err
		}
		for ahead.Next() {
			rec := ahead.Record()
			if !s.Execed(rec) {
				continue
			}
			id, _ := perfabi.PeekID(rec)
			s.execed, _ = perfabi.PeekTime(rec, s.sources[id].SampleType)
			return nil
		}
	}
	return nil
}

// afterExec reports whether a sample is of the program that took the target's place.
func (s *Set) afterExec(rec []byte, src Source) bool {
	if s.execed == 0 {
		return false
	}
	t, ok := perfabi.PeekTime(rec, src.SampleType)
	return ok && t > s.execed
}

// concernsTarget reports whether a record about tasks names the target, or was made by a fork of it.
func (s *Set) concernsTarget(kind uint32, rec []byte) bool {
	const pidOff, ppidOff = perfabi.HeaderSize, perfabi.HeaderSize + 4
	if len(rec) < ppidOff+4 {
		return true
	}
	target := uint32(s.target.PID())
	pid, ppid := binary.LittleEndian.Uint32(rec[pidOff:]), binary.LittleEndian.Uint32(rec[ppidOff:])
	if kind == perfabi.RecordFork {
		switch {
		case s.live == 0:
		case pid == target:
			s.born++
		case ppid == target && s.progs == nil:
			s.askRelation(int(pid))
		}
	}
	return pid == target || kind == perfabi.RecordFork && ppid == target
}

// noteSharers makes a gap of every task outside the process that shares its memory when the session begins: see
// askRelation.
func (s *Set) noteSharers() error {
	sharers, err := s.target.Sharers()
	for _, tid := range sharers {
		s.addHole(Gap{TID: tid, From: s.live, Detail: unwatchedSharer(tid)})
	}
	return err
}

func unwatchedSharer(pid int) string {
	return fmt.Sprintf("process %d shares the target's memory and was not watched: that needs BPF", pid)
}

// askRelation makes a gap of a process created by the target that may share its memory: without BPF only threads are
// followed, since a forked copy's hits could not be told apart.
func (s *Set) askRelation(pid int) {
	detail := ""
	switch s.target.Relation(pid) {
	case proc.Sharer:
		detail = unwatchedSharer(pid)
	case proc.Unclear:
		detail = fmt.Sprintf("process %d was created by the target and was gone, or had executed a program, before it could be told whether it shared the target's memory", pid)
	default:
		return
	}
	s.addHole(Gap{TID: pid, From: Now(), Detail: detail})
}

// maxHoles bounds the gaps that are kept one by one; of the others the last one tells the number.
const maxHoles = 4096

func (s *Set) addHole(g Gap) {
	if len(s.holes) < maxHoles {
		s.holes = append(s.holes, g)
		return
	}
	s.moreHoles++
}

// Gaps lists what is known not to have been watched.
func (s *Set) Gaps() []Gap {
	gaps := append(s.scope.gaps(), s.holes...)
	if s.moreHoles > 0 {
		gaps = append(gaps, Gap{Detail: fmt.Sprintf("%d more tasks were not watched", s.moreHoles)})
	}
	return gaps
}

// pass delivers a record, or cuts it for the limit.
func (s *Set) pass(cpu int, rec []byte, emit func(cpu int, rec []byte)) {
	if perfabi.PeekType(rec) == perfabi.RecordLost {
		if s.Full() {
			return // what is missing came later, and no more of it was to be delivered
		}
		s.limit.lossy = true
	}
	if slot, ok := s.slotOf(rec); ok {
		if s.cfg.Slots[slot].Wake {
			s.woke = max(s.woke, s.timeOf(rec))
		}
		if !s.limit.take(slot) {
			return
		}
		if s.Full() {
			s.noteLost()
		}
	}
	emit(cpu, rec)
}

// noteLost keeps how much was lost when the limit has been delivered. A ring tells of a loss before the next record that it
// takes: as long as none has, nothing was lost before what was delivered.
func (s *Set) noteLost() {
	if !s.limit.lossy {
		return
	}
	for slot := range s.cfg.Slots {
		lost, err := s.Lost(slot)
		if err != nil {
			lost = math.MaxUint64 // all that turns out to be lost may have been by now
		}
		s.limit.lost[slot] = lost
	}
}

// Woke is the time of the newest hit, of those that drains have brought, of a slot that wants to be drained at once; 0 if
// there was none.
func (s *Set) Woke() uint64 { return s.woke }

// timeOf is the time of a sample of a known source.
func (s *Set) timeOf(rec []byte) uint64 {
	id, _ := perfabi.PeekID(rec)
	t, _ := perfabi.PeekTime(rec, s.sources[id].SampleType)
	return t
}

// slotOf tells the slot that a sample is a hit of.
func (s *Set) slotOf(rec []byte) (int, bool) {
	if binary.LittleEndian.Uint32(rec) != perfabi.RecordSample {
		return 0, false
	}
	id, _ := perfabi.PeekID(rec)
	src, ok := s.sources[id]
	if !ok {
		return 0, false
	}
	if src.Role == "breakpoint" {
		return src.Slot, true
	}
	slot, ok := perfabi.PeekHitSlot(rec, src.SampleType)
	return int(slot), ok && int(slot) < len(s.cfg.Slots)
}

// PlainIP is the ip of a hit in user mode whose record is the watchpoint's own sample: no program has brought its code.
func (s *Set) PlainIP(rec []byte) (uint64, bool) {
	if s.progs != nil || perfabi.PeekType(rec) != perfabi.RecordSample ||
		perfabi.PeekMisc(rec)&perfabi.MiscCPUModeMask != perfabi.MiscUser {
		return 0, false
	}
	id, _ := perfabi.PeekID(rec)
	if src, ok := s.sources[id]; !ok || src.Role != "breakpoint" {
		return 0, false
	}
	return perfabi.PeekIP(rec)
}

// Execed reports whether a record says that the target has executed another program.
func (s *Set) Execed(rec []byte) bool {
	h, err := perfabi.ParseHeader(rec)
	return err == nil && h.Type == perfabi.RecordComm && h.Misc&perfabi.MiscCommExec != 0 &&
		len(rec) >= perfabi.HeaderSize+4 && int(binary.LittleEndian.Uint32(rec[perfabi.HeaderSize:])) == s.target.PID()
}
