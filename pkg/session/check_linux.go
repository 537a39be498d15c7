//go:build amd64

package session

import (
	"fmt"

	"xw/pkg/proc"
	"xw/pkg/watch"
	"xw/pkg/wire"
)

// checkTries bounds how often a slot's bytes are read for a check: under steady hits no count stands still.
const checkTries = 3

// writeChecks writes what each armed slot holds while no hit comes, so that a reader can tell whether something changed
// the bytes without a hit.
func (r *run) writeChecks() {
	r.out.endChunk()
	for i, s := range slots(r.watches, 0) {
		addr := r.armedAt(i, s)
		if addr == 0 || s.Access == "x" {
			continue
		}
		r.out.write(r.check(i, s, addr))
	}
}

// armedAt is where a slot is armed now.
func (r *run) armedAt(i int, s watch.Slot) uint64 {
	if l := r.chains.levels[s.Watch]; l.inChain {
		return l.bound.Addr.V
	}
	return s.Addr
}

func (r *run) check(i int, s watch.Slot, addr uint64) *wire.Check {
	c := &wire.Check{Watch: uint32(s.Watch), Addr: addr}
	for range checkTries {
		before, err := r.set.Totals(i)
		c.Time = watch.Now()
		value := r.readValue(wire.Some(addr), s.Len)
		if err != nil {
			break
		}
		after, err := r.set.Totals(i)
		if err == nil && before == after {
			c.Hits, c.Value = wire.Some(after.Counted), value
			break
		}
	}
	return c
}

// writeNoHits says, for a session without a hit, what speaks for and against there having been no access.
func (r *run) writeNoHits() {
	for i := range r.watches {
		if r.hitsOf(i) > 0 || len(r.watches[i].Slots) == 0 {
			continue
		}
		w := &r.watches[i]
		info := r.set.Info()
		text := fmt.Sprintf("%s: no hit, although watchpoints work here: one on a word of xw-open's own fired at the start. "+
			"Threads covered in scope %s: %d at the start, %d born since. ", w.Name, info.Scope, info.Threads, r.set.Born())
		if info.Kernel == "on" {
			text += "What the kernel accesses for the process is seen. "
		} else {
			text += "What the kernel accesses for the process is not seen. "
		}
		r.out.write(&wire.Note{Time: watch.Now(), Text: text + r.mappingNote(w)})
	}
}

// mappingNote says how the first byte of a watch is mapped.
func (r *run) mappingNote(w *wire.Watch) string {
	addr := w.Slots[0].Addr
	if addr == 0 {
		return "it was bound to no address at the start"
	}
	maps, err := r.proc.Maps()
	if err != nil {
		return fmt.Sprintf("whether %#x is mapped is unknown: the process has ended", addr)
	}
	for _, m := range maps {
		switch {
		case !m.Contains(addr):
		case m.Prot&proc.ProtWrite == 0 && w.Access != "x":
			return fmt.Sprintf("%#x is mapped and not writable", addr)
		case m.Shared:
			return fmt.Sprintf("%#x is mapped and shared: what other processes do to the page is not seen", addr)
		default:
			return fmt.Sprintf("%#x is mapped and writable", addr)
		}
	}
	return fmt.Sprintf("%#x is not mapped", addr)
}
