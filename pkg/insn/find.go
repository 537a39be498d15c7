package insn

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/arch/x86/x86asm"
)

// slack is how far behind its pointer a repeated string instruction may report an access, in bytes. The Intel SDM,
// volume 3, section 17.3.1.2, lets MOVS and STOS report late; fast strings move up to 64 bytes at a time.
const slack = 64

// candidate is an instruction that may have made the access.
type candidate struct {
	instr
	// sure says that the address of an operand was computed and lies in the watched bytes; else the address of one cannot
	// be computed.
	sure    bool
	role    role   // what was done to the watched bytes
	operand access // the operand that touched them; of several the one written
}

// executed is the result of an execute watch, where ip is the instruction itself.
func (f *finder) executed() Result {
	in, ok := f.at(f.IP)
	if !ok {
		return unknownOp(Execute, NotFound, f.noCode("at"))
	}
	return Result{Status: Exact, Addr: f.IP, Len: in.Len, Text: in.text(f.Symbol), Op: Execute, Rep: in.repeated()}
}

// accessed is the result of a data watch.
func (f *finder) accessed() Result {
	list, found := f.ending(f.IP, f.FuncStart)
	candidates := f.examine(list)
	if c, ok := f.interrupted(); ok {
		candidates = append(candidates, c)
	}
	if c, certain, ok := f.called(); ok && (certain || len(candidates) == 0) {
		if candidates = append(candidates, c); certain {
			found = max(found, listed)
		}
	}
	switch {
	case len(candidates) == 0:
		return f.none(list, found)
	case len(candidates) > 1:
		return f.ambiguous(candidates)
	case found == cut:
		return Result{Status: Ambiguous, Op: Unknown, Reason: fmt.Sprintf(
			"%s, or one that begins before the code bytes that were taken", candidates[0].text(f.Symbol))}
	case !candidates[0].sure && found != proven:
		return Result{Status: Ambiguous, Op: candidates[0].role.op(), Reason: fmt.Sprintf(
			"%s may have made the access, but its address cannot be checked", candidates[0].text(f.Symbol))}
	}
	return f.exact(&candidates[0])
}

// examine keeps the instructions that can have touched the watched bytes.
func (f *finder) examine(list []instr) []candidate {
	var left []candidate
	for i := range list {
		in := &list[i]
		if isTransfer(in.Op) || in.repeated() && !f.finished(in) {
			continue
		}
		if c, ok := f.touches(in); ok {
			left = append(left, c)
		}
	}
	return left
}

// isTransfer tells the jumps that touch memory: after them ip is their target, not what follows them.
func isTransfer(op x86asm.Op) bool {
	switch op {
	case x86asm.CALL, x86asm.JMP, x86asm.RET, x86asm.LCALL, x86asm.LJMP, x86asm.LRET:
		return true
	}
	return false
}

// finished says whether a repeated instruction can be over: the counter is zero, unless a comparison can have ended it.
func (f *finder) finished(in *instr) bool {
	switch in.Op {
	case x86asm.CMPSB, x86asm.CMPSW, x86asm.CMPSD, x86asm.CMPSQ,
		x86asm.SCASB, x86asm.SCASW, x86asm.SCASD, x86asm.SCASQ:
		return true
	}
	count, ok := f.counter(in)
	return !ok || count == 0
}

func (f *finder) counter(in *instr) (count uint64, ok bool) {
	count, ok = f.number(cx)
	if in.pre.addrSize {
		count = truncate(count, f.bits/16)
	}
	return count, ok
}

// interrupted is the repeated string instruction at ip itself, when iterations are left to do.
func (f *finder) interrupted() (candidate, bool) {
	in, ok := f.at(f.IP)
	if !ok || !in.repeated() {
		return candidate{}, false
	}
	if count, ok := f.counter(&in); ok && count == 0 {
		return candidate{}, false
	}
	return f.touches(&in)
}

// touches says whether an instruction can have touched the watched bytes in a way that the watch sees.
func (f *finder) touches(in *instr) (c candidate, ok bool) {
	list := in.accesses(&f.machine)
	c = candidate{instr: *in}
	if f.placed(&c, list, 0) || in.repeated() && f.placed(&c, list, slack) {
		c.sure = true
		return c, true
	}
	for _, a := range list {
		switch {
		case a.known || !f.seen(a.role):
		case c.role == 0:
			c.role, c.operand = a.role, a
		case c.role != a.role:
			c.role = unnamed // one of several, and not known which
		}
	}
	return c, c.role != 0
}

// placed looks for the accesses whose address is known among the watched bytes. The direction of a string instruction is
// not: where both fit, which element it was is not known.
func (f *finder) placed(c *candidate, list []access, late uint64) bool {
	r, operand := f.overlap(list, false, late)
	if c.isString() {
		other, back := f.overlap(list, true, late)
		switch {
		case r == 0:
			r, operand = other, back
		case other != 0 && other != r:
			r, operand.known = unnamed, false
		case other != 0:
			operand.known = false
		}
		operand.known = operand.known && late == 0
	}
	c.role, c.operand = r, operand
	return r != 0
}

// overlap is what the accesses with a known address do to the watched bytes; 0 if the watch does not see that. Of several
// the operand is the one that is written.
func (f *finder) overlap(list []access, down bool, late uint64) (r role, operand access) {
	for _, a := range list {
		first, end := a.span(down, late)
		if !a.known || first >= f.Addr+f.Len || end <= f.Addr {
			continue
		}
		if r == 0 || a.role&writes != 0 {
			operand = a
			operand.addr = first
		}
		r |= a.role
	}
	if !f.seen(r) {
		return 0, access{}
	}
	return r, operand
}

// seen says whether the watch reports what the role does.
func (f *finder) seen(r role) bool {
	if f.Access == "w" {
		return r&(writes|unnamed) != 0
	}
	return r != 0
}

func (f *finder) exact(c *candidate) Result {
	r := Result{Status: Exact, Addr: c.addr, Len: c.Len, Text: c.text(f.Symbol), Op: c.role.op(), Rep: c.repeated(),
		Size: c.operand.size}
	r.Stored, r.Loaded = c.derive(&f.machine, &c.operand)
	r.Changes = c.changes(int(c.operand.size))
	r.Operand.V, r.Operand.OK = c.operand.addr, c.operand.known
	return r
}

func (f *finder) ambiguous(list []candidate) Result {
	slices.SortFunc(list, func(a, b candidate) int { return b.Len - a.Len })
	texts := make([]string, len(list))
	op := list[0].role.op()
	for i := range list {
		texts[i] = list[i].text(f.Symbol)
		if list[i].role.op() != op {
			op = Unknown
		}
	}
	return Result{Status: Ambiguous, Op: op, Reason: fmt.Sprintf(
		"%d instructions could have made the access: %s", len(list), strings.Join(texts, "; "))}
}

// none is the result where no instruction is left.
func (f *finder) none(list []instr, found certainty) Result {
	if r, ok := f.transferred(list); ok {
		return r
	}
	reason := "no instruction that ends at ip touches the watched bytes"
	switch {
	case len(list) == 0:
		reason = f.noCode("before")
	case found == proven && isTransfer(list[0].Op):
		reason = fmt.Sprintf("%s stands before ip and does not lead there: a jump, call or return may have",
			list[0].text(f.Symbol))
	case f.FuncStart == f.IP:
		reason = "ip is the start of a function: a jump or call may have led there"
	case found == proven:
		reason = fmt.Sprintf("%s ends at ip and does not touch the watched bytes", list[0].text(f.Symbol))
	}
	return unknownOp(Unknown, NotFound, reason)
}

func unknownOp(op string, status Status, reason string) Result {
	return Result{Status: status, Op: op, Reason: reason}
}

// noCode says why there is no instruction to look at.
func (f *finder) noCode(where string) string {
	if len(f.Code) == 0 && f.files == nil {
		return "no code bytes were taken"
	}
	return "no instruction can be decoded " + where + " ip"
}
