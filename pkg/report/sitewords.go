package report

import (
	"cmp"
	"fmt"
	"strings"

	"xw/pkg/insn"
)

// instructionText says what made the access and how.
func instructionText(w *Watch, s *Site) string {
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
	case w.Access == "x" || s.Origin != 0:
		what = "at " + s.IP.String()
	default:
		what = "the instruction before " + s.IP.String()
	}
	if s.InsnReason != "" && s.Origin == 0 {
		what += "  (" + string(s.InsnReason) + ")"
	}
	return op + ": " + what
}

// byWhom names the threads of a site.
func byWhom(s *Site) string {
	var names []string
	for _, c := range s.Comms[:min(len(s.Comms), 3)] {
		names = append(names, string(cmp.Or(c.Comm, "?")))
	}
	if n := len(s.Comms) - len(names); n > 0 {
		names = append(names, "...")
	}
	text := fmt.Sprintf("by %s: %s", plural(s.Threads, "thread"), strings.Join(names, ", "))
	switch {
	case !s.Accesses.OK || s.Accesses.V == s.Hits:
	case s.Accesses.V == 0: // the last iterations of copies, say
		text += "; part of accesses of other sites"
	default:
		text += "; " + plural(s.Accesses.V, "access")
	}
	return text
}

// lastValue is what the last hit of a site left, and what stood there before if that is known. What no one read at the
// hit is marked.
func lastValue(s *Site) string {
	switch {
	case s.LastValue.OK && s.LastOldValue.OK:
		return fmt.Sprintf("; last %s -> %s%s", s.LastOldValue, s.LastValue, stored(s))
	case s.LastValue.OK:
		return fmt.Sprintf("; last %s%s", s.LastValue, stored(s))
	case s.LastLoaded.OK && s.LastStored.OK && s.Op != insn.Read:
		return fmt.Sprintf("; last %s -> %s (derived)", s.LastLoaded, s.LastStored)
	case s.LastStored.OK:
		return fmt.Sprintf("; last %s (derived)", s.LastStored)
	case s.LastLoaded.OK:
		return fmt.Sprintf("; last %s (derived)", s.LastLoaded)
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

// entry says how the process came into the kernel.
func entry(s *Site) string {
	switch {
	case s.Syscall != "":
		return "in " + string(s.Syscall) + "(2)"
	case s.SyscallNR.OK:
		return "in system call " + s.SyscallNR.String()
	}
	return "entered"
}

// functions are the functions of a place, innermost first.
func functions(p Place, ip Hex) string {
	var b strings.Builder
	for _, in := range p.Inlined {
		b.WriteString(string(cmp.Or(in.Func, "?")) + " inlined into ")
	}
	b.WriteString(cmp.Or(p.String(), ip.String()))
	return b.String()
}

// moduleWords is the module of a place whose name does not show it already, or why there is none.
func moduleWords(p Place) string {
	switch {
	case p.Module == "" && p.Func == "" && p.Note != "":
		return "(" + string(p.Note) + ")"
	case p.JIT:
		return "(JIT)"
	case p.Module == "" || p.Func == "" || p.Module == "[kernel]":
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
	shown := make([]*Site, 0, len(w.Sites))
	for i := range w.Sites {
		if !w.Sites[i].filtered {
			shown = append(shown, &w.Sites[i])
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
		plural(uint64(len(w.Sites)-len(w.askedSites())), "site"), what)
}
