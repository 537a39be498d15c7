//go:build amd64

package session

import (
	"bufio"
	"fmt"
	"io"
	"strconv"

	"xw/pkg/proc"
	"xw/pkg/target"
	"xw/pkg/watch"
)

// List prints the writable data symbols of a process that match pattern: module, symbol, size, address.
func List(pid int, pattern string, w io.Writer, say func(format string, args ...any)) error {
	p, err := proc.Open(pid)
	if err != nil {
		return watch.Explain(err)
	}
	defer p.Close()
	symbols, err := target.List(p, pattern)
	if err != nil {
		return err
	}
	switch {
	case len(symbols) > 0:
	case pattern == "":
		say("there are no writable data symbols")
	default:
		say("no writable data symbol matches %q", pattern)
	}
	out := bufio.NewWriter(w)
	for _, s := range symbols {
		size := "?"
		if s.Size > 0 {
			size = strconv.FormatUint(s.Size, 10)
		}
		fmt.Fprintf(out, "%-24s %-48s %10s %#x\n", s.Module, s.Demangled, size, s.Addr)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("print the list: %w", err)
	}
	return nil
}
