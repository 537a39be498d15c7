package wire

import (
	"errors"
	"fmt"
	"io"
)

// ErrTruncated says that a stream stops before its end record: whoever wrote it was killed, or the copy is cut.
var ErrTruncated = errors.New("truncated stream")

// FormatError is input that is not a stream, or no longer one. All records before Offset were good.
type FormatError struct {
	Offset int64  // of the record in the input, in bytes
	Line   int    // of the record in a text stream, from 1; 0 in a binary one
	Kind   string // of the record, "" if it is not known
	Err    error

	whole bool // the record's end is known
}

func (e *FormatError) Error() string {
	kind := e.Kind
	if kind == "" {
		kind = "record"
	}
	if e.Line > 0 {
		return fmt.Sprintf("read stream: %s in line %d: %v", kind, e.Line, e.Err)
	}
	return fmt.Sprintf("read stream: %s at byte %d: %v", kind, e.Offset, e.Err)
}

// Unwrap returns the cause.
func (e *FormatError) Unwrap() error { return e.Err }

// errCut is the end of the input inside a record.
var errCut = fmt.Errorf("%w: the input stops inside the record: %w", ErrTruncated, io.ErrUnexpectedEOF)
