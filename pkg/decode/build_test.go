package decode

import (
	"bytes"
	"encoding/binary"
	"testing"

	"xw/pkg/perfabi"
	"xw/pkg/wire"
)

// Ids of the events in the streams that tests build.
const (
	outputID     = 101
	breakpointID = 201 // of watch 1
	sidebandID   = 301
)

const (
	outputType     = perfabi.SampleIdentifier | perfabi.SampleIP | perfabi.SampleTID | perfabi.SampleTime | perfabi.SampleRaw
	breakpointType = perfabi.SampleIdentifier | perfabi.SampleIP | perfabi.SampleTID | perfabi.SampleTime | perfabi.SampleAddr
	sidebandType   = perfabi.SampleIdentifier | perfabi.SampleTID | perfabi.SampleTime
)

// rawHeader has a plain watch of two slots, another of one, and a chain's level.
func rawHeader() *wire.Header {
	return &wire.Header{Version: wire.Version, Stream: wire.Raw, Session: wire.Session{StartNS: 50, Watches: []wire.Watch{
		{ID: 0, Name: "wide", Role: "plain", Slots: []wire.Slot{{Addr: 0x1000, Len: 8}, {Addr: 0x1008, Len: 8}}},
		{ID: 1, Name: "word", Role: "plain", Slots: []wire.Slot{{Addr: 0x2000, Len: 4}}},
		{ID: 2, Name: "leaf", Role: "leaf", Chain: wire.Some(0), Addr: wire.Some(0x3000), Slots: []wire.Slot{{Addr: 0x3000, Len: 8}}},
	}}}
}

func ids(list ...uint64) (b []byte) {
	for _, id := range list {
		b = binary.LittleEndian.AppendUint64(b, id)
	}
	return b
}

// rawSources are the sources of the ids above.
func rawSources() []wire.Record {
	return []wire.Record{
		&wire.Source{Role: roleOutput, SampleType: outputType, IDs: ids(outputID)},
		&wire.Source{Role: roleBreakpoint, Watch: wire.Some(1), Slot: wire.Some(0), SampleType: breakpointType, IDs: ids(breakpointID)},
		&wire.Source{Role: roleSideband, SampleType: sidebandType, IDs: ids(sidebandID)},
	}
}

// perfRecord is a perf record of the given words after its header.
func perfRecord(typ uint32, misc uint16, words ...uint64) []byte {
	b := binary.LittleEndian.AppendUint32(nil, typ)
	b = binary.LittleEndian.AppendUint16(b, misc)
	b = binary.LittleEndian.AppendUint16(b, uint16(8+8*len(words)))
	for _, w := range words {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

func pair(lo, hi uint32) uint64 { return uint64(hi)<<32 | uint64(lo) }

// hitSpec is a hit as the BPF program emits it.
type hitSpec struct {
	time     uint64
	pid, tid uint32
	ip       uint64
	slot     uint32
	addr     uint64
	value    uint64
	comm     string
	code     [32]byte // from ip-16 on
	regs     bool
}

func (h hitSpec) record() []byte {
	payload := make([]byte, perfabi.HitSize+4)
	binary.LittleEndian.PutUint32(payload[perfabi.HitSlotOff:], h.slot)
	binary.LittleEndian.PutUint32(payload[perfabi.HitFlagsOff:], perfabi.HitValueValid)
	binary.LittleEndian.PutUint32(payload[perfabi.HitCodeAtOff:], perfabi.HitCodeBack-16)
	binary.LittleEndian.PutUint32(payload[perfabi.HitCodeLenOff:], uint32(len(h.code)))
	binary.LittleEndian.PutUint64(payload[perfabi.HitAddrOff:], h.addr)
	binary.LittleEndian.PutUint64(payload[perfabi.HitValueOff:], h.value)
	copy(payload[perfabi.HitCommOff:], h.comm)
	copy(payload[perfabi.HitCodeOff+perfabi.HitCodeBack-16:], h.code[:])
	if h.regs {
		payload[perfabi.HitFlagsOff] |= perfabi.HitRegsValid
		for i := range uint64(16) {
			binary.LittleEndian.PutUint64(payload[perfabi.HitRegsOff+8*i:], h.time+i)
		}
	}
	b := perfRecord(perfabi.RecordSample, perfabi.MiscUser, outputID, h.ip, pair(h.pid, h.tid), h.time)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	b = append(b, payload...)
	binary.LittleEndian.PutUint16(b[6:], uint16(len(b)))
	return b
}

// encode is a binary stream of these records.
func encode(t testing.TB, records ...wire.Record) []byte {
	t.Helper()
	var b bytes.Buffer
	w := wire.NewWriter(&b)
	for _, r := range records {
		if err := w.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
