package wire

import (
	"errors"
	"fmt"
	"io"
)

var errLongRecord = fmt.Errorf("longer than %d bytes", MaxRecord)

// scanner finds the end of one record in bytes that arrive piece by piece. It checks every limit, so that what it has
// passed can be decoded without further checks of lengths.
type scanner struct {
	pos   int              // bytes passed
	depth int              // open containers
	left  [MaxDepth]uint64 // values still to come in each of them
}

// advance goes on with b, the record's bytes from its first one on. It returns true when the record is complete: then
// pos is its length.
func (s *scanner) advance(b []byte) (bool, error) {
	for s.pos == 0 || s.depth > 0 {
		s.skipSimple(b)
		h, ok := parseHead(b[s.pos:])
		if !ok {
			return false, nil
		}
		payload, items := h.extent()
		if err := s.check(h, payload, items); err != nil {
			return false, err
		}
		end := s.pos + h.size + int(payload)
		if end > len(b) {
			return false, nil
		}
		s.pos = end
		if items > 0 {
			s.left[s.depth] = items
			s.depth++
		} else {
			s.leave()
		}
	}
	return true, nil
}

// skipSimple passes numbers, nil and short byte strings, which most values are, up to the last of their container: advance does
// the same more slowly, and goes on from there.
func (s *scanner) skipSimple(b []byte) {
	if s.depth == 0 {
		return
	}
	pos, left := s.pos, s.left[s.depth-1]
	for ; left > 1 && pos < len(b); left-- {
		size := 1
		if c := b[pos]; c >= 0xcc && c <= 0xcf {
			size += 1 << (c - 0xcc)
		} else if c == 0xc4 && pos+1 < len(b) {
			size += 1 + int(b[pos+1])
		} else if c > 0x7f && c != 0xc0 {
			break
		}
		if pos+size > min(len(b), MaxRecord) {
			break
		}
		pos += size
	}
	s.pos, s.left[s.depth-1] = pos, left
}

// leave counts a value without parts, and leaves the containers that are full now.
func (s *scanner) leave() {
	for s.depth > 0 {
		s.left[s.depth-1]--
		if s.left[s.depth-1] > 0 {
			return
		}
		s.depth--
	}
}

func (s *scanner) check(h head, payload, items uint64) error {
	switch {
	case s.pos == 0 && (h.class != classArray || h.n == 0):
		return fmt.Errorf("expected an array that begins with a kind, found %s", found(h))
	case h.class == classInvalid:
		return fmt.Errorf("byte %d of it is 0xc1, which MessagePack does not use", s.pos)
	case payload > MaxRecord || s.pos+h.size+int(payload) > MaxRecord:
		return errLongRecord
	case items > MaxItems:
		return fmt.Errorf("%v of %d values, at most %d are allowed", h.class, items, MaxItems)
	case items > 0 && s.depth == MaxDepth:
		return fmt.Errorf("nested deeper than %d levels", MaxDepth)
	}
	return nil
}

func found(h head) string {
	if h.class == classArray {
		return "an empty one"
	}
	return h.class.String()
}

// framer cuts a byte stream into records. The slices it returns are parts of its buffer.
type framer struct {
	src   io.Reader
	buf   []byte
	begin int   // of the record returned last, in buf
	size  int   // of that record
	end   int   // of what was read, in buf
	base  int64 // offset of buf[0] in the stream
	ahead scanner
}

func newFramer(src io.Reader) *framer {
	return &framer{src: src, buf: make([]byte, bufferSize)}
}

// next implements source.
func (f *framer) next() (raw []byte, err error) {
	f.begin += f.size
	f.size = 0
	for {
		whole, err := f.ahead.advance(f.buf[f.begin:f.end])
		if err != nil {
			return f.broken(err)
		}
		if whole {
			f.size = f.ahead.pos
			f.ahead = scanner{}
			return f.buf[f.begin : f.begin+f.size], nil
		}
		err = f.fill()
		switch {
		case errors.Is(err, io.EOF) && f.end > f.begin:
			return f.broken(errCut)
		case errors.Is(err, io.EOF):
			return nil, io.EOF
		case err != nil:
			return nil, fmt.Errorf("read stream: %w", err)
		}
	}
}

func (f *framer) broken(err error) ([]byte, error) {
	rest := f.buf[f.begin:f.end]
	kind, _, _, _ := parseStart(rest)
	offset, _ := f.position()
	return rest, &FormatError{Offset: offset, Kind: printable(kind), Err: err}
}

// position is where the record returned last, or the one that failed, begins in the stream.
func (f *framer) position() (offset int64, line int) { return f.base + int64(f.begin), 0 }

// buffered returns the number of unread bytes if they hold a whole record, or one known to be bad; else 0.
func (f *framer) buffered() int {
	rest := f.buf[f.begin+f.size : f.end]
	whole, err := f.ahead.advance(rest)
	if whole || err != nil {
		return len(rest)
	}
	return 0
}

// fill reads more. The start of an unfinished record is moved to the front of the buffer first.
func (f *framer) fill() error {
	if f.begin > 0 {
		copy(f.buf, f.buf[f.begin:f.end])
		f.base += int64(f.begin)
		f.end -= f.begin
		f.begin = 0
	}
	if f.end == len(f.buf) {
		f.buf = append(f.buf, make([]byte, len(f.buf))...)
	}
	n, err := readSome(f.src, f.buf[f.end:])
	f.end += n
	return err
}

// readSome reads at least one byte or returns an error, never both.
func readSome(r io.Reader, b []byte) (int, error) {
	const patience = 100
	for range patience {
		n, err := r.Read(b)
		if n > 0 {
			return n, nil
		}
		if err != nil {
			return 0, err
		}
	}
	return 0, io.ErrNoProgress
}
