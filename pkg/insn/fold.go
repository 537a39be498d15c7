package insn

// Hit is one hit of a watch by one thread, for a Folder.
type Hit struct {
	IP     uint64
	Kernel bool
	Slot   uint64      // address of the watchpoint that fired
	Regs   *[16]uint64 // as in Input, nil if not sampled
}

// Places of registers in Hit.Regs.
const (
	regAX = iota
	regBX
	regCX
	regDX
	regSI
	regDI
	regBP
	regSP
	regR8
	regR12 = regR8 + 4
)

// maxSlots is how many watchpoints a thread can have.
const maxSlots = 4

// Folder tells which hits of one thread on one watch belong to one access: one execution of an instruction, which a
// repeated string instruction reports once an iteration and a wide access once a watchpoint, or one copy by the kernel.
// The zero Folder is ready for the first hit.
type Folder struct {
	last  Hit
	regs  [16]uint64 // what last.Regs points to
	slots [maxSlots]uint64
	n     int // of slots, those that fired in the access so far, in the iteration last seen
}

// Add takes the next hit, in order of time, and what Find told of it. begins says that it is the first of an access;
// decided is false where that cannot be told.
func (f *Folder) Add(h *Hit, r *Result) (begins, decided bool) {
	begins, decided = true, true
	if f.n > 0 {
		begins, decided = f.compare(h, r)
	}
	if !f.same(h) || f.fired(h.Slot) || f.n == maxSlots {
		f.n = 0
	}
	f.slots[f.n] = h.Slot
	f.n++
	f.last = *h
	if h.Regs != nil {
		f.regs = *h.Regs
		f.last.Regs = &f.regs
	}
	return begins, decided
}

// compare decides on a hit after another.
func (f *Folder) compare(h *Hit, r *Result) (begins, decided bool) {
	switch {
	case h.Kernel != f.last.Kernel:
		return true, true
	case h.Regs == nil || f.last.Regs == nil:
		return true, r.Status == Exact && !r.Rep && h.Slot == f.last.Slot
	case f.same(h):
		return f.fired(h.Slot), true
	case r.Status == Exact && !r.Rep && !h.Kernel:
		return true, true
	case f.steps(h, r):
		return false, r.Status == Exact || h.Kernel
	case h.Kernel && f.nearby(h):
		return true, false
	}
	return true, true
}

// same says that nothing has changed between two hits but the watchpoint: one instruction over several of them.
func (f *Folder) same(h *Hit) bool {
	return f.n > 0 && h.Regs != nil && f.last.Regs != nil && h.IP == f.last.IP && *h.Regs == f.regs
}

func (f *Folder) fired(slot uint64) bool {
	for _, s := range f.slots[:f.n] {
		if s == slot {
			return true
		}
	}
	return false
}

// steps says that a hit is a later iteration of the same repeated string instruction: the counter has gone down by as
// many elements as the pointers have moved, and nothing else has changed.
func (f *Folder) steps(h *Hit, r *Result) bool {
	was, now := &f.regs, h.Regs
	n := was[regCX] - now[regCX]
	ended := h.IP > f.last.IP && h.IP-f.last.IP <= maxLen
	if h.IP != f.last.IP && !ended || n == 0 || now[regCX] > was[regCX] {
		return false
	}
	source, target := elements(was[regSI], now[regSI], n), elements(was[regDI], now[regDI], n)
	if source == 0 && target == 0 || source != 0 && target != 0 && source != target {
		return false
	}
	if r.Status == Exact && !fits(source, r.Size) && !fits(target, r.Size) {
		return false
	}
	for i := range was {
		switch i {
		case regCX, regSI, regDI:
			continue
		case regAX: // LODS, and loops of moves through it in the kernel
			if h.Kernel || target == 0 {
				continue
			}
		}
		if was[i] != now[i] {
			return false
		}
	}
	return true
}

// elements is the size of the elements, negative if they go down, when a pointer has moved over n of them; else 0.
func elements(was, now, n uint64) int64 {
	for _, size := range []int64{1, 2, 4, 8} {
		switch now - was {
		case n * uint64(size):
			return size
		case -(n * uint64(size)):
			return -size
		}
	}
	return 0
}

func fits(element int64, size uint64) bool {
	return element == int64(size) || element == -int64(size)
}

// nearby says that two hits in the kernel may be of one copy that is made of several instructions: they are close to each
// other in one function call, and the pointers have not gone back.
func (f *Folder) nearby(h *Hit) bool {
	const farthest = 512
	was, now := &f.regs, h.Regs
	if h.IP == f.last.IP || max(h.IP, f.last.IP)-min(h.IP, f.last.IP) > farthest {
		return false
	}
	for _, i := range []int{regBX, regBP, regSP, regR12, regR12 + 1, regR12 + 2, regR12 + 3} {
		if was[i] != now[i] {
			return false
		}
	}
	return now[regDI] >= was[regDI] && now[regSI] >= was[regSI]
}
