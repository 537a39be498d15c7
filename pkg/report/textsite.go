package report

import (
	"cmp"
	"fmt"
	"strings"

	"xw/pkg/insn"
)

const siteIndent = "                     "

// sites prints the sites of a watch, most hits first: one line for where, one for what, and more for what else is known.
func (t *textReport) sites(w *Watch) {
	shown := make([]*Site, 0, len(w.Sites))
	for i := range w.Sites {
		if !w.Sites[i].filtered {
			shown = append(shown, &w.Sites[i])
		}
	}
	t.line()
	t.line(part{dim, fmt.Sprintf("  %7s %9s  %s", "share", "hits", "where")})
	for _, s := range top(shown, t.o.Top) {
		t.site(w, s)
	}
	t.rest(len(shown), "site")
	if w.Filtered > 0 {
		what := map[string]string{"r": "do not read", "w": "do not write"}[w.op]
		t.line(part{dim, fmt.Sprintf("  %s of %s that %s left out", plural(w.Filtered, "hit"),
			plural(uint64(len(w.Sites)-len(shown)), "site"), what)})
	}
}

func (t *textReport) site(w *Watch, s *Site) {
	line := []part{{plain, fmt.Sprintf("  %7s %9d  ", share(s.Hits, w.Hits), s.Hits)}}
	if s.Origin != 0 {
		line = append(line, part{yellow, "kernel "})
	}
	t.line(append(line, whereParts(s.Place, s.IP)...)...)
	if s.Origin != 0 {
		t.kernelLine(s)
	}
	t.line(part{dim, siteIndent}, part{plain, instructionText(w, s)})
	t.line(part{dim, siteIndent + byWhom(s) + lastValue(s)})
	if t.o.Callchain {
		t.callers(s)
	}
}

// whereParts is a place: the functions, innermost first, the module and the line.
func whereParts(p Place, ip Hex) []part {
	name := p.String()
	if name == "" {
		name = ip.String()
	}
	parts := []part{}
	for _, in := range p.Inlined {
		parts = append(parts, part{bold, string(cmp.Or(in.Func, "?"))}, part{plain, " inlined into "})
	}
	parts = append(parts, part{bold, name})
	if p.JIT {
		parts = append(parts, part{dim, " (JIT)"})
	}
	if p.Module != "" && p.Func != "" && p.Module != "[kernel]" {
		parts = append(parts, part{dim, " (" + string(p.Module) + ")"})
	}
	if p.File != "" {
		at := string(p.File)
		if p.Line.OK {
			at += ":" + p.Line.String()
		}
		parts = append(parts, part{cyan, "  " + at})
	}
	return parts
}

// kernelLine says where the process was when the kernel made the access.
func (t *textReport) kernelLine(s *Site) {
	if s.User == nil && !s.SyscallNR.OK {
		return
	}
	parts := []part{{plain, siteIndent}}
	switch {
	case s.Syscall != "":
		parts = append(parts, part{plain, "in " + string(s.Syscall) + "(2)"})
	case s.SyscallNR.OK:
		parts = append(parts, part{plain, "in system call " + s.SyscallNR.String()})
	default:
		parts = append(parts, part{plain, "entered"})
	}
	if s.User != nil {
		parts = append(parts, part{plain, " from "})
		parts = append(parts, whereParts(s.User.Place, s.User.IP)...)
	}
	t.line(parts...)
}

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
	if s.InsnReason != "" {
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
	return fmt.Sprintf("by %s: %s", plural(s.Threads, "thread"), strings.Join(names, ", "))
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

// callers prints the call stacks of a site.
func (t *textReport) callers(s *Site) {
	if s.Stacks == nil {
		t.line(part{dim, siteIndent + "no callers were recorded"})
		return
	}
	for _, stack := range top(s.Stacks, t.o.Top) {
		what := "callers by frame pointers:"
		if stack.Other {
			what = "other callers"
		}
		t.line(part{dim, fmt.Sprintf("%s%7s %s", siteIndent, share(stack.Hits, s.Hits), what)})
		for _, f := range stack.Frames {
			t.line(append([]part{{plain, siteIndent + "          "}}, whereParts(f.Place, f.IP)...)...)
		}
	}
}
