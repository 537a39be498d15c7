package target

import (
	"fmt"
	"strings"

	"xw/pkg/wire"
)

// maxSlots is the number of hardware watchpoints that x86 has per thread: DR0 to DR3.
const maxSlots = 4

// maxSlotLen is the widest one, in bytes.
const maxSlotLen = 8

// split covers [addr, addr+n) exactly with the fewest aligned slots of 1, 2, 4 or 8 bytes. The range must not wrap, and
// need no more than a few slots: see slotsFor.
func split(addr, n uint64) []wire.Slot {
	var slots []wire.Slot
	for n > 0 {
		size := slotLen(addr, n)
		slots = append(slots, wire.Slot{Addr: addr, Len: size})
		addr, n = addr+size, n-size
	}
	return slots
}

func slotLen(addr, n uint64) uint64 {
	size := uint64(maxSlotLen)
	for addr%size != 0 || size > n {
		size /= 2
	}
	return size
}

// slotsFor counts what split would return, for ranges of any length.
func slotsFor(addr, n uint64) uint64 {
	count := uint64(0)
	for ; n > 0 && (addr%maxSlotLen != 0 || n < maxSlotLen); count++ {
		size := slotLen(addr, n)
		addr, n = addr+size, n-size
	}
	count += n / maxSlotLen
	if rest := n % maxSlotLen; rest > 0 {
		count += slotsFor(0, rest)
	}
	return count
}

// SlotsError says that the watches need more hardware watchpoints than there are.
type SlotsError struct {
	Needed uint64
	Lines  []string // what each watch needs
}

func (e *SlotsError) Error() string {
	return fmt.Sprintf("too many watchpoints: %d needed, x86 has %d per thread: %s", e.Needed, maxSlots, strings.Join(e.Lines, ", "))
}

// Hint says how to need fewer.
func (e *SlotsError) Hint() string {
	return "a slot covers 1, 2, 4 or 8 bytes at a multiple of its size; watch fewer or shorter places"
}

// demand is what one watch or chain needs.
type demand struct {
	name  string
	slots uint64
	why   string
}

func checkDemand(demands []demand) error {
	e := &SlotsError{}
	for _, d := range demands {
		if e.Needed += d.slots; e.Needed < d.slots {
			e.Needed = 1<<64 - 1
		}
		e.Lines = append(e.Lines, fmt.Sprintf("%s %d (%s)", d.name, d.slots, d.why))
	}
	if e.Needed > maxSlots {
		return e
	}
	return nil
}
