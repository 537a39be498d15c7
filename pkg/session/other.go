//go:build !linux || !amd64

package session

import (
	"context"
	"io"

	"xw/pkg/proc"
)

// Run fails: there are no watchpoints.
func Run(context.Context, Config, Streams) error { return proc.ErrUnsupported }

// List fails: there are no processes to look into.
func List(int, string, io.Writer, func(string, ...any)) error { return proc.ErrUnsupported }
