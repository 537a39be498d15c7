package report

import "fmt"

const siteIndent = "                     "

// sites prints the sites of a watch, most hits first: one line for where, one for what, and more for what else is known.
func (t *textReport) sites(w *Watch) {
	shown := w.askedSites()
	t.line()
	t.line(part{dim, fmt.Sprintf("  %7s %9s  %s", "share", "hits", "where")})
	for _, s := range top(shown, t.o.Top) {
		t.site(w, s)
	}
	t.rest(len(shown), "site")
	if left := filteredWords(w); left != "" {
		t.line(part{dim, "  " + left})
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

// whereParts is a place with its parts in their colours.
func whereParts(p Place, ip Hex) []part {
	parts := []part{{bold, functions(p, ip)}}
	if m := moduleWords(p); m != "" {
		parts = append(parts, part{dim, " " + m})
	}
	if l := sourceLine(p); l != "" {
		parts = append(parts, part{cyan, "  " + l})
	}
	return parts
}

// kernelLine says where the process was when the kernel made the access.
func (t *textReport) kernelLine(s *Site) {
	if s.User == nil && !s.SyscallNR.OK {
		return
	}
	parts := []part{{plain, siteIndent + entry(s)}}
	if s.User != nil {
		parts = append(parts, part{plain, " from "})
		parts = append(parts, whereParts(s.User.Place, s.User.IP)...)
	}
	t.line(parts...)
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
