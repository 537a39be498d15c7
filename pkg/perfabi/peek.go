package perfabi

import "encoding/binary"

// The Peek functions look at one field of a whole record without decoding it: for the privileged process, which only
// copies. Those that may not find it say so.

// PeekSize is the size that the header at the start of b gives, whether or not that many bytes are there. b has at least
// HeaderSize bytes.
func PeekSize(b []byte) uint16 { return binary.LittleEndian.Uint16(b[6:]) }

// PeekType is the type that the header at the start of b gives. b has at least HeaderSize bytes.
func PeekType(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }

// PeekMisc are the misc bits of the header at the start of b. b has at least HeaderSize bytes.
func PeekMisc(b []byte) uint16 { return binary.LittleEndian.Uint16(b[4:]) }

// PeekID is the id of the event that a record belongs to: with SampleIdentifier and sample_id_all set it is the first
// word of a sample and the last of any other record.
func PeekID(rec []byte) (uint64, bool) {
	if len(rec) < HeaderSize+8 {
		return 0, false
	}
	if PeekType(rec) == RecordSample {
		return binary.LittleEndian.Uint64(rec[HeaderSize:]), true
	}
	return binary.LittleEndian.Uint64(rec[len(rec)-8:]), true
}

// PeekIP is the ip of a sample that begins with its event's id, as all of xw's do, and has one.
func PeekIP(rec []byte) (uint64, bool) { return wordAt(rec, HeaderSize+8) }

// PeekTime is the time of a record in ns of its event's clock. sampleType must have SampleTime.
func PeekTime(rec []byte, sampleType uint64) (uint64, bool) {
	if len(rec) < HeaderSize {
		return 0, false
	}
	if PeekType(rec) == RecordSample {
		return wordAt(rec, HeaderSize+wordBytes(sampleType&(SampleIdentifier|SampleIP|SampleTID)))
	}
	return wordAt(rec, len(rec)-wordBytes(sampleType&trailerWords&^SampleTID))
}

// PeekTask is the process and the thread that a sample belongs to. sampleType must have SampleTID.
func PeekTask(rec []byte, sampleType uint64) (pid, tid uint32, ok bool) {
	w, ok := wordAt(rec, HeaderSize+wordBytes(sampleType&(SampleIdentifier|SampleIP)))
	return uint32(w), uint32(w >> 32), ok
}

// PeekAddr is the address of a sample. sampleType must have SampleAddr.
func PeekAddr(rec []byte, sampleType uint64) (uint64, bool) {
	return wordAt(rec, HeaderSize+wordBytes(sampleType&(SampleIdentifier|SampleIP|SampleTID|SampleTime)))
}

// PeekHitSlot is the slot index in the payload of a sample made by xw's BPF program. sampleType must have SampleRaw and
// not SampleRead.
func PeekHitSlot(rec []byte, sampleType uint64) (uint32, bool) {
	off := HeaderSize + wordBytes(sampleType&singleWords)
	if sampleType&SampleCallchain != 0 {
		n, ok := wordAt(rec, off)
		if !ok || n > uint64(len(rec))/8 {
			return 0, false
		}
		off += 8 + 8*int(n)
	}
	w, ok := wordAt(rec, off) // u32 size, then the payload, whose first u32 is the slot
	return uint32(w >> 32), ok && uint32(w) >= HitSizeBare
}

func wordAt(rec []byte, off int) (uint64, bool) {
	if off < HeaderSize || off > len(rec)-8 {
		return 0, false
	}
	return binary.LittleEndian.Uint64(rec[off:]), true
}
