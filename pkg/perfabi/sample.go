package perfabi

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// Sample is a PERF_RECORD_SAMPLE. A field is zero unless its bit is in the layout's SampleType; slices alias the
// record.
type Sample struct {
	Misc       uint16
	Identifier uint64 // SampleIdentifier
	IP         uint64 // SampleIP
	PID        uint32 // SampleTID
	TID        uint32 // SampleTID
	Time       uint64 // SampleTime, ns of the event's clock
	Addr       uint64 // SampleAddr: for a breakpoint the address armed when it hit
	ID         uint64 // SampleID
	StreamID   uint64 // SampleStreamID
	CPU        uint32 // SampleCPU
	Period     uint64 // SamplePeriod
	Read       Read   // SampleRead
	Callchain  Words  // SampleCallchain: addresses and Context marks; not nil if present
	Raw        []byte // SampleRaw: the payload and up to 7 bytes of padding; not nil if present
	RegsUser   Regs   // SampleRegsUser: of the task in user mode
	RegsIntr   Regs   // SampleRegsIntr: at the interrupt, of the kernel for a hit made by the kernel
}

// Decode reads rec, which must be exactly one record, with the layout of its event. The error is an *Error; then s is
// not to be used. It allocates nothing but an error and, for SampleRead, s.Read.Values.
func (s *Sample) Decode(rec []byte, l *Layout) error {
	if l.SampleType == usual && s.decodeUsual(rec) {
		return nil
	}
	h, f := open(rec)
	t := l.SampleType
	if t&^decoded != 0 {
		f.fail("sample_type", fmt.Sprintf("has fields that are not decoded: %#x", t&^decoded))
	}
	s.Misc = h.Misc
	s.Identifier = f.u64If(t&SampleIdentifier != 0, "identifier")
	s.IP = f.u64If(t&SampleIP != 0, "ip")
	s.PID, s.TID = f.u32Pair(t&SampleTID != 0, "tid")
	s.Time = f.u64If(t&SampleTime != 0, "time")
	s.Addr = f.u64If(t&SampleAddr != 0, "addr")
	s.ID = f.u64If(t&SampleID != 0, "id")
	s.StreamID = f.u64If(t&SampleStreamID != 0, "stream_id")
	s.CPU, _ = f.u32Pair(t&SampleCPU != 0, "cpu")
	s.Period = f.u64If(t&SamplePeriod != 0, "period")
	s.decodeVariable(&f, l)
	return f.end()
}

// usual are the fields of the samples that xw's BPF program makes, of which there are most.
const usual = SampleIdentifier | SampleIP | SampleTID | SampleTime | SampleRaw

// decodeUsual does for these fields, in half the time, what Decode does for all, or returns false when anything is wrong with
// the record.
func (s *Sample) decodeUsual(rec []byte) bool {
	const size, raw = HeaderSize + 4*8, HeaderSize + 4*8 + 4
	if len(rec) < raw || PeekType(rec) != RecordSample || int(PeekSize(rec)) != len(rec) ||
		uint64(binary.LittleEndian.Uint32(rec[size:])) != uint64(len(rec)-raw) {
		return false
	}
	values := s.Read.Values[:0]
	*s = Sample{
		Misc:       PeekMisc(rec),
		Identifier: binary.LittleEndian.Uint64(rec[HeaderSize:]),
		IP:         binary.LittleEndian.Uint64(rec[HeaderSize+8:]),
		PID:        binary.LittleEndian.Uint32(rec[HeaderSize+16:]),
		TID:        binary.LittleEndian.Uint32(rec[HeaderSize+20:]),
		Time:       binary.LittleEndian.Uint64(rec[HeaderSize+24:]),
		Raw:        rec[raw:len(rec):len(rec)],
	}
	s.Read.Values = values
	return true
}

func (s *Sample) decodeVariable(f *fields, l *Layout) {
	t := l.SampleType
	s.Callchain, s.Raw, s.RegsUser, s.RegsIntr = nil, nil, Regs{}, Regs{}
	if t&SampleRead != 0 {
		s.Read.decode(f, l.ReadFormat)
	}
	if t&SampleCallchain != 0 {
		s.Callchain = f.words(f.u64("callchain length"), "callchain")
	}
	if t&SampleRaw != 0 {
		s.Raw = f.take(uint64(f.u32("raw size")), "raw")
	}
	if t&SampleRegsUser != 0 {
		s.RegsUser.decode(f, l.RegsUser, "regs_user")
	}
	if t&SampleRegsIntr != 0 {
		s.RegsIntr.decode(f, l.RegsIntr, "regs_intr")
	}
}

func (r *Regs) decode(f *fields, mask uint64, field string) {
	r.ABI = f.u64(field)
	switch r.ABI {
	case RegsABINone:
	case RegsABI32, RegsABI64:
		r.Words = f.words(uint64(bits.OnesCount64(mask)), field)
	default:
		f.fail(field, fmt.Sprintf("unexpected register abi %d", r.ABI))
	}
}

// Read is a counter's value as read(2) returns it and SampleRead carries it (struct perf_event_read_format).
type Read struct {
	TimeEnabled uint64      // ns; FormatTotalTimeEnabled
	TimeRunning uint64      // ns; FormatTotalTimeRunning
	Values      []ReadValue // one, or with FormatGroup one for each event of the group; reused by the next decoding
}

// ReadValue is the value of one event.
type ReadValue struct {
	Value uint64
	ID    uint64 // FormatID
	Lost  uint64 // records that found no room in the ring; FormatLost
}

// Parse reads what read(2) returned for an event of the given read_format.
func (r *Read) Parse(b []byte, format uint64) error {
	f := fields{b: b}
	r.decode(&f, format)
	return f.end()
}

func (r *Read) decode(f *fields, format uint64) {
	r.Values = r.Values[:0]
	n, one := uint64(1), ReadValue{}
	if format&FormatGroup != 0 {
		n = f.u64("read length")
	} else {
		one.Value = f.u64("read value")
	}
	r.TimeEnabled = f.u64If(format&FormatTotalTimeEnabled != 0, "read time_enabled")
	r.TimeRunning = f.u64If(format&FormatTotalTimeRunning != 0, "read time_running")
	if format&FormatGroup == 0 {
		one.decodeRest(f, format)
		r.Values = append(r.Values, one)
		return
	}
	for ; n > 0 && f.err == nil; n-- {
		v := ReadValue{Value: f.u64("read value")}
		v.decodeRest(f, format)
		r.Values = append(r.Values, v)
	}
}

func (v *ReadValue) decodeRest(f *fields, format uint64) {
	v.ID = f.u64If(format&FormatID != 0, "read id")
	v.Lost = f.u64If(format&FormatLost != 0, "read lost")
}
