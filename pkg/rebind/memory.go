package rebind

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Fixture is a Memory that was written by hand.
type Fixture struct{ cells map[uint64][]cell }

type cell struct{ since, value uint64 }

// ParseFixture reads lines of an address, the value there and, unless it was there from the start, the time in ns since
// when. Of one address the lines are in the order of time. # begins a comment; numbers are decimal or hex with 0x.
func ParseFixture(r io.Reader) (*Fixture, error) {
	f := &Fixture{cells: map[uint64][]cell{}}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		fields := strings.Fields(text)
		if len(fields) == 0 {
			continue
		}
		if err := f.add(fields); err != nil {
			return nil, fmt.Errorf("read memory: line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read memory: %w", err)
	}
	return f, nil
}

func (f *Fixture) add(fields []string) error {
	if len(fields) < 2 || len(fields) > 3 {
		return fmt.Errorf("%d fields, want address, value and perhaps a time", len(fields))
	}
	var numbers [3]uint64
	for i, s := range fields {
		digits, isHex := strings.CutPrefix(s, "0x")
		base := 10
		if isHex {
			base = 16
		}
		v, err := strconv.ParseUint(digits, base, 64)
		if err != nil {
			return fmt.Errorf("%q is not a number", s)
		}
		numbers[i] = v
	}
	addr, c := numbers[0], cell{since: numbers[2], value: numbers[1]}
	if list := f.cells[addr]; len(list) > 0 && list[len(list)-1].since > c.since {
		return fmt.Errorf("0x%x at %d comes after a later time", addr, c.since)
	}
	f.cells[addr] = append(f.cells[addr], c)
	return nil
}

// Value implements Memory.
func (f *Fixture) Value(addr, time uint64) (uint64, bool) {
	list := f.cells[addr]
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].since <= time {
			return list[i].value, true
		}
	}
	return 0, false
}
