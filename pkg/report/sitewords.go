package report

import (
	"cmp"
	"fmt"
	"strings"

	"xw/pkg/insn"
)

// instructionText says what made the access and how; "" for the kernel's code, of which no instruction is known.
func instructionText(w *Watch, s *Site) string {
	if s.Origin != 0 && s.Insn == "" {
		return ""
	}
	op := string(s.Op)
	if op == insn.Unknown && w.Access == "w" {
		op = insn.Write
	}
	if op == insn.Unknown {
		op = "unknown operation"
	}
	what := string(s.Insn)
	switch {
	case what != "":
	case w.Access == "x":
		what = "at " + s.IP.String()
	default:
		what = "the instruction before " + s.IP.String()
	}
	if s.InsnReason != "" {
		what += " (" + string(s.InsnReason) + ")"
	}
	return op + ": " + what
}

// kernelWords says what the kernel did to the watched bytes: read(2) wrote 8 bytes. "" for a site in user mode.
func kernelWords(w *Watch, s *Site) string {
	if s.Origin == 0 {
		return ""
	}
	object, bytes := "", bytesWords(s)
	verb := "accessed"
	switch {
	case s.Op == insn.Read:
		verb = "read"
	case s.Op == insn.ReadWrite:
		verb = "read and wrote"
	case s.Op == insn.Write, w.Access == "w":
		verb = "wrote"
	}
	switch {
	case bytes != "":
		object = bytes
	case verb == "wrote":
		object = "to it"
	default:
		object = "it"
	}
	return strings.TrimSpace(entry(s) + " " + verb + " " + object)
}

// entry says how the process came into the kernel; "" if that is unknown.
func entry(s *Site) string {
	switch {
	case s.Syscall != "":
		return string(s.Syscall) + "(2)"
	case s.SyscallNR.OK:
		return "system call " + s.SyscallNR.String()
	}
	return ""
}

// bytesWords is how many of the watched bytes an access of several iterations touched; "" if that is unknown.
func bytesWords(s *Site) string {
	switch {
	case s.most == 0:
		return ""
	case s.least < s.most:
		return fmt.Sprintf("%d to %s", s.least, plural(s.most, "byte"))
	}
	return plural(s.most, "byte")
}

// byWhom names the threads of a site, and the accesses that its hits were.
func byWhom(s *Site) string {
	var names []string
	for _, c := range s.Comms[:min(len(s.Comms), 3)] {
		names = append(names, string(cmp.Or(c.Comm, "?")))
	}
	if n := len(s.Comms) - len(names); n > 0 {
		names = append(names, "...")
	}
	text := "by " + strings.Join(names, ", ")
	if s.Threads != 1 || len(names) > 1 {
		text = fmt.Sprintf("by %s: %s", plural(s.Threads, "thread"), strings.Join(names, ", "))
	}
	if !s.Accesses.OK || s.Accesses.V == s.Hits {
		return text
	}
	accesses := plural(s.Accesses.V, "access")
	if bytes := bytesWords(s); bytes != "" && s.Origin == 0 {
		accesses += " of " + bytes
	}
	return accesses + " " + text
}

// change is what the last access of a site left, and what stood there before if that is known. What no one read at the
// hit is marked.
func change(s *Site) string {
	switch {
	case s.LastValue.OK && s.before.OK && s.Op != insn.Read:
		return fmt.Sprintf("%s -> %s%s", s.before, s.LastValue, stored(s))
	case s.LastValue.OK:
		return s.LastValue.String() + stored(s)
	case s.LastLoaded.OK && s.LastStored.OK && s.Op != insn.Read:
		return fmt.Sprintf("%s -> %s (derived)", s.LastLoaded, s.LastStored)
	case s.LastStored.OK:
		return fmt.Sprintf("%s (derived)", s.LastStored)
	case s.LastLoaded.OK:
		return fmt.Sprintf("%s (derived)", s.LastLoaded)
	}
	return ""
}

// stored says what an instruction stored if something else stood there when it was read: another writer was faster.
func stored(s *Site) string {
	if !s.LastStored.OK || s.LastStored == s.LastValue {
		return ""
	}
	return fmt.Sprintf(" (stored %s, derived)", s.LastStored)
}

// contention says what a site's accesses did to the value and to the threads and CPUs before them.
func contention(s *Site) []string {
	var words []string
	if s.Silent.V > 0 {
		words = append(words, fmt.Sprintf("%d left the value as it was", s.Silent.V))
	}
	if s.HandoffsThread > 0 {
		words = append(words, fmt.Sprintf("%d after another thread", s.HandoffsThread))
	}
	return words
}

// functions are the functions of a place, innermost first. A part of a function that the compiler has put back into it is
// not told apart.
func functions(p Place, ip Hex) string { return chainOf(outward(p, ip)) }

// outward lists the functions of a place, innermost first, the last with its offset.
func outward(p Place, ip Hex) []string {
	var names []string
	for i, in := range p.Inlined {
		outer := p.Func
		if i+1 < len(p.Inlined) {
			outer = p.Inlined[i+1].Func
		}
		if in.Func == "" || in.Func != outer {
			names = append(names, string(cmp.Or(in.Func, "?")))
		}
	}
	return append(names, cmp.Or(p.String(), ip.String()))
}

// moduleWords is the module of a place whose name does not show it already, or why there is none. That of the program
// itself goes without saying.
func moduleWords(p Place) string {
	switch {
	case p.Module == "" && p.Func == "" && p.Note != "":
		return "(" + string(p.Note) + ")"
	case p.JIT:
		return "(JIT)"
	case p.Func == "" && !p.ModuleOffset.OK && p.Module != "" && p.Module[0] != '[': // named by its address alone
		return "(" + string(p.Module) + ")"
	case p.Module == "" || p.Func == "" || p.Module == "[kernel]" || p.home:
		return ""
	}
	return "(" + string(p.Module) + ")"
}

func sourceLine(p Place) string {
	if p.File != "" && p.Line.OK {
		return string(p.File) + ":" + p.Line.String()
	}
	return string(p.File)
}

// placeWords is a place in one line.
func placeWords(p Place, ip Hex) string {
	text := functions(p, ip)
	for _, more := range []string{moduleWords(p), sourceLine(p)} {
		if more != "" {
			text += " " + more
		}
	}
	return text
}

// askedSites are the sites whose operation was asked for.
func (w *Watch) askedSites() []*Site {
	shown := make([]*Site, 0, len(w.lines))
	for _, s := range w.lines {
		if !s.filtered {
			shown = append(shown, s)
		}
	}
	return shown
}

// filteredWords says what was left out because its operation was not asked for.
func filteredWords(w *Watch) string {
	if w.Filtered == 0 {
		return ""
	}
	what := "do not read"
	if w.op == "w" {
		what = "do not write"
	}
	return fmt.Sprintf("%s of %s that %s left out", plural(w.Filtered, "hit"),
		plural(uint64(len(w.lines)-len(w.askedSites())), "site"), what)
}
