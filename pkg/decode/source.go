package decode

import (
	"encoding/binary"
	"errors"
	"fmt"

	"xw/pkg/perfabi"
	"xw/pkg/wire"
)

// maxIDs bounds the events that source records may tell of, some 40 MB of table: a million threads opened one by one.
const maxIDs = 1 << 20

// Roles of events in source records.
const (
	roleOutput     = "output"
	roleBreakpoint = "breakpoint"
	roleSideband   = "sideband"
)

// source is what a source record tells of its events.
type source struct {
	role   string
	watch  wire.Opt
	layout perfabi.Layout
}

// sources finds the source of a perf record.
type sources struct {
	list   []source
	byID   map[uint64]int32 // index in list
	lastID uint64
	last   int32 // index of lastID's source, unknownSource if there is none
}

func newSources() sources {
	return sources{byID: map[uint64]int32{}, last: unknownSource}
}

func (s *sources) add(r *wire.Source) error {
	switch {
	case len(r.IDs)%8 != 0:
		return fmt.Errorf("decode: source record: ids of %d bytes, no multiple of 8", len(r.IDs))
	case len(s.byID)+len(r.IDs)/8 > maxIDs || len(s.list) >= maxIDs:
		return errors.New("decode: source record: too many events")
	}
	index := int32(len(s.list))
	s.list = append(s.list, source{role: r.Role, watch: r.Watch,
		layout: perfabi.Layout{SampleType: r.SampleType, RegsUser: r.RegsUser, RegsIntr: r.RegsIntr}})
	for ids := r.IDs; len(ids) > 0; ids = ids[8:] {
		s.byID[binary.LittleEndian.Uint64(ids)] = index
	}
	s.last = unknownSource
	return nil
}

// of is the index of the source of a whole perf record, or unknownSource.
func (s *sources) of(rec []byte) int32 {
	if id, ok := perfabi.PeekID(rec); ok {
		return s.ofID(id)
	}
	return unknownSource
}

// ofID is the index of the source of the event with this id, or unknownSource.
func (s *sources) ofID(id uint64) int32 {
	if id == s.lastID && s.last != unknownSource {
		return s.last
	}
	index, ok := s.byID[id]
	if !ok {
		return unknownSource
	}
	s.lastID, s.last = id, index
	return index
}
