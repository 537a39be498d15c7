//go:build !linux

package stage

import (
	"context"
	"errors"
	"io"
	"os"
)

// newPolled does nothing here: a goroutine reads.
func newPolled(context.Context, *os.File) (_ io.Reader, stop func(), err error) {
	return nil, nil, errors.ErrUnsupported
}
