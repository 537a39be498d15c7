//go:build amd64

package watch

import "xw/pkg/perfabi"

// hitID stands in the records that programs write for the id of an event, of which they are none. The kernel counts ids up
// from 1.
const hitID = 1 << 63

// hitSampleType describes these records, which are laid out as the kernel lays out its own.
func hitSampleType(callchain bool) uint64 {
	t := uint64(perfabi.SampleIdentifier | perfabi.SampleIP | perfabi.SampleTID | perfabi.SampleTime | perfabi.SampleRaw)
	if callchain {
		t |= perfabi.SampleCallchain
	}
	return t
}

// Offsets in a PERF_RECORD_SAMPLE of hitSampleType.
const (
	recType  = 0
	recMisc  = 4
	recSize  = 6
	recID    = 8
	recIP    = 16
	recTask  = 24
	recTime  = 32
	recChain = 40 // of the call chain: its length, then that of RAW
	recRaw   = 40 // of RAW without one: its size, then the payload

	recPadding = 4 // behind the payload, so that size, payload and this are words
)

// Offsets in a PERF_RECORD_LOST with the sample_id of hitSampleType.
const (
	lostID         = 8
	lostN          = 16
	lostTask       = 24
	lostTime       = 32
	lostIdentifier = 40
	lostSize       = 48
)
