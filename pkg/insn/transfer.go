package insn

import "golang.org/x/arch/x86/x86asm"

// called is the call that pushed a return address, when ip is its target: found before the return address, which is on
// top of the stack. certain says that the call is known to lead to ip.
func (f *finder) called() (c candidate, certain, ok bool) {
	back, ok := f.returnAddress()
	if !ok {
		return candidate{}, false, false
	}
	list, _ := f.ending(back, 0)
	n := 0
	for i := range list {
		in := &list[i]
		if in.Op != x86asm.CALL {
			continue
		}
		leads, known := f.leadsToIP(in)
		if found, ok := f.touches(in); ok && found.sure && leads {
			c, certain = found, known
			n++
		}
	}
	return c, certain, n == 1
}

// returnAddress is the word on top of the stack, which is also what was read from the watched bytes if they are it.
func (f *finder) returnAddress() (addr uint64, ok bool) {
	top, ok := f.number(sp)
	if !ok {
		return 0, false
	}
	if f.Value.OK && f.Addr == top && f.Len == uint64(f.bits/8) {
		return f.Value.V, true
	}
	if f.Stack == nil {
		return 0, false
	}
	addr, ok = f.Stack(top)
	return truncate(addr, f.bits/8), ok
}

// leadsToIP says whether a call can go to ip, and whether that is known: what a pointer in memory held is known only if
// it was read at the hit.
func (f *finder) leadsToIP(in *instr) (leads, known bool) {
	switch arg := in.Args[0].(type) {
	case x86asm.Rel:
		return in.wrap(in.next()+uint64(int64(arg))) == f.IP, true
	case x86asm.Reg:
		v, _, ok := f.register(arg)
		return ok && v == f.IP, true
	case x86asm.Mem:
		addr, known := in.effective(&f.machine, arg, 0)
		if known && f.Value.OK && addr == f.Addr && f.Len == uint64(f.bits/8) {
			return f.Value.V == f.IP, true
		}
		return true, false
	}
	return false, false
}

// transferred is the result where a return or a jump read the watched bytes: what it did is known, where it was is not.
func (f *finder) transferred(before []instr) (Result, bool) {
	if f.Access == "w" {
		return Result{}, false
	}
	word := uint64(f.bits / 8)
	top, ok := f.number(sp)
	slot := f.wrap(top - word)
	popped := ok && slot < f.Addr+f.Len && slot+word > f.Addr
	target := f.Value.OK && f.Len == word && f.Value.V == f.IP
	afterCall := false
	for i := range before {
		afterCall = afterCall || before[i].Op == x86asm.CALL
	}
	switch {
	case popped && (target || afterCall):
		return unknownOp(Read, NotFound, "a return through the watched bytes led to ip: where it was is not known"), true
	case target:
		return unknownOp(Read, NotFound, "a jump or call through the watched bytes led to ip: where it was is not known"), true
	}
	return Result{}, false
}

func (f *finder) wrap(addr uint64) uint64 { return truncate(addr, f.bits/8) }
