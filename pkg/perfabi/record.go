package perfabi

import (
	"encoding/binary"
	"math/bits"
)

// HeaderSize is the size of struct perf_event_header.
const HeaderSize = 8

// Header is struct perf_event_header.
type Header struct {
	Type uint32 // a Record constant
	Misc uint16 // Misc bits
	Size uint16 // bytes of the whole record, header included
}

// ParseHeader reads the header at the start of b. The error is an *Error if b holds no whole record or its size is
// impossible.
func ParseHeader(b []byte) (Header, error) {
	if len(b) < HeaderSize {
		return Header{}, &Error{Field: "header", Needed: HeaderSize, Available: uint64(len(b))}
	}
	h := Header{Type: binary.LittleEndian.Uint32(b), Misc: binary.LittleEndian.Uint16(b[4:]), Size: binary.LittleEndian.Uint16(b[6:])}
	if h.Size < HeaderSize {
		return h, &Error{Record: h.Type, Field: "size", Needed: HeaderSize, Available: uint64(h.Size), Reason: "is less than a header's"}
	}
	if int(h.Size) > len(b) {
		return h, &Error{Record: h.Type, Field: "size", Needed: uint64(h.Size), Available: uint64(len(b))}
	}
	return h, nil
}

// Layout says how the records of an event are laid out: members of its perf_event_attr. sample_id_all is always set.
type Layout struct {
	SampleType uint64 // sample_type
	ReadFormat uint64 // read_format, for SampleRead
	RegsUser   uint64 // sample_regs_user
	RegsIntr   uint64 // sample_regs_intr
}

const (
	// singleWords are the sample fields that are 8 bytes each and come first, in this kernel order: identifier, ip,
	// tid, time, addr, id, stream id, cpu, period.
	singleWords = SampleIdentifier | SampleIP | SampleTID | SampleTime | SampleAddr | SampleID | SampleStreamID | SampleCPU | SamplePeriod
	decoded     = singleWords | SampleRead | SampleCallchain | SampleRaw | SampleRegsUser | SampleRegsIntr
	// trailerWords are the fields that sample_id_all puts at the end of records that are no samples, 8 bytes each, in
	// this order: tid, time, id, stream id, cpu, identifier.
	trailerWords = SampleTID | SampleTime | SampleID | SampleStreamID | SampleCPU | SampleIdentifier
)

func wordBytes(sampleType uint64) int { return 8 * bits.OnesCount64(sampleType) }

// SampleIDFields is the trailer of a record that is no sample (struct sample_id). A field is zero unless its bit is in
// the layout's SampleType.
type SampleIDFields struct {
	PID        uint32 // SampleTID
	TID        uint32 // SampleTID
	Time       uint64 // SampleTime, ns of the event's clock
	ID         uint64 // SampleID
	StreamID   uint64 // SampleStreamID
	CPU        uint32 // SampleCPU
	Identifier uint64 // SampleIdentifier
}

func (s *SampleIDFields) decode(f *fields, sampleType uint64) {
	*s = SampleIDFields{}
	s.PID, s.TID = f.u32Pair(sampleType&SampleTID != 0, "tid")
	s.Time = f.u64If(sampleType&SampleTime != 0, "time")
	s.ID = f.u64If(sampleType&SampleID != 0, "id")
	s.StreamID = f.u64If(sampleType&SampleStreamID != 0, "stream_id")
	s.CPU, _ = f.u32Pair(sampleType&SampleCPU != 0, "cpu")
	s.Identifier = f.u64If(sampleType&SampleIdentifier != 0, "identifier")
}

// open starts on a whole record: it checks that rec is exactly one.
func open(rec []byte) (Header, fields) {
	h, err := ParseHeader(rec)
	f := fields{b: rec, off: HeaderSize, record: h.Type}
	if err != nil {
		f.off = 0
		f.err = err.(*Error)
	} else if int(h.Size) != len(rec) {
		f.fail("size", "is less than the bytes given")
	}
	return h, f
}

// openBody starts on a record that is no sample: the trailer is taken off first, so that what is left is the body.
func openBody(rec []byte, l *Layout, id *SampleIDFields) (Header, fields) {
	h, f := open(rec)
	trailer := wordBytes(l.SampleType & trailerWords)
	if f.err == nil && trailer > len(rec)-HeaderSize {
		f.short(uint64(trailer), "sample_id")
	}
	if f.err != nil {
		return h, f
	}
	t := fields{b: rec, off: len(rec) - trailer, record: h.Type}
	id.decode(&t, l.SampleType)
	f.b, f.trailer = rec[:len(rec)-trailer], trailer
	return h, f
}

// ParseTrailer reads the trailer of a record that is no sample and whose body need not be known.
func ParseTrailer(rec []byte, l *Layout) (SampleIDFields, error) {
	var id SampleIDFields
	_, f := openBody(rec, l, &id)
	f.rest()
	return id, f.end()
}
