package session

import (
	"xw/pkg/wire"
)

// stream writes the raw stream: ring data in chunks, rounds, and records between them. The first error stays.
type stream struct {
	w     *wire.Writer
	chunk wire.Chunk
	round wire.Round
	err   error
}

func newStream(w *wire.Writer) *stream {
	return &stream{w: w, chunk: wire.Chunk{Bin: make([]byte, 0, wire.MaxChunk)}}
}

// record adds one perf record of a CPU's ring to the present chunk.
func (s *stream) record(cpu int, rec []byte) {
	if uint32(cpu) != s.chunk.CPU || len(s.chunk.Bin)+len(rec) > wire.MaxChunk {
		s.endChunk()
		s.chunk.CPU = uint32(cpu)
	}
	s.chunk.Bin = append(s.chunk.Bin, rec...)
}

func (s *stream) endChunk() {
	if len(s.chunk.Bin) == 0 {
		return
	}
	s.write(&s.chunk)
	s.chunk.Bin = s.chunk.Bin[:0]
}

// endRound ends the chunk and says that the rings were drained.
func (s *stream) endRound(t uint64) {
	s.endChunk()
	s.round.T = t
	s.write(&s.round)
}

func (s *stream) write(r wire.Record) {
	if err := s.w.Write(r); err != nil && s.err == nil {
		s.err = err
	}
}

func (s *stream) flush() {
	if err := s.w.Flush(); err != nil && s.err == nil {
		s.err = err
	}
}
