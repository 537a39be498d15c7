package report

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// shareWidth is the width of a share, as in 100.0%.
const shareWidth = 6

// hitsWidth is how many columns the hits of a watch take.
func hitsWidth(w *Watch) int {
	most := uint64(0)
	for _, s := range w.lines {
		most = max(most, s.Hits)
	}
	for i := range w.Threads {
		most = max(most, w.Threads[i].Hits)
	}
	return max(len("hits"), len(fmt.Sprint(most)))
}

// sites prints the sites of a watch, most hits first: where, what, and what else is known.
func (t *textReport) sites(w *Watch) {
	shown := w.askedSites()
	t.line()
	if len(shown) > 0 {
		t.line(part{dim, fmt.Sprintf("  %*s  %*s  %s", shareWidth, "share", hitsWidth(w), "hits", "where")})
	}
	for _, s := range top(shown, t.o.Top) {
		t.site(w, s)
	}
	t.rest(len(shown), "site")
	if left := filteredWords(w); left != "" {
		t.flow(2, part{dim, "  " + left})
	}
}

func (t *textReport) site(w *Watch, s *Site) {
	start := fmt.Sprintf("  %*s  %*d  ", shareWidth, share(s.Hits, w.Hits), hitsWidth(w), s.Hits)
	indent := len(start)
	if what := kernelWords(w, s); what != "" {
		t.flow(indent+2, part{plain, start}, part{yellow, "kernel: "}, part{bold, what}, part{plain, ", in "},
			part{bold, placeWords(s.Place, s.IP)})
		if s.User != nil {
			t.where(indent, []part{{plain, strings.Repeat(" ", indent) + "from "}}, s.User.Place, s.User.IP)
		}
	} else {
		t.where(indent, []part{{plain, start}}, s.Place, s.IP)
	}
	space := part{plain, strings.Repeat(" ", indent)}
	if text := instructionText(w, s); text != "" {
		t.flow(indent+2, space, part{plain, text})
	}
	facts := []string{byWhom(s)}
	if value := change(s); value != "" {
		facts = append(facts, "last "+value)
	}
	t.facts(indent, append(facts, contention(s)...))
	if t.o.Callchain {
		t.callers(indent, s)
	}
}

// facts prints what fits into a line of it, and more lines for the rest.
func (t *textReport) facts(indent int, facts []string) {
	line := strings.Repeat(" ", indent) + facts[0]
	for _, f := range facts[1:] {
		if t.width > 0 && columns([]part{{plain, line + "; " + f}}) >= t.width {
			t.flow(indent+2, part{dim, line + ";"})
			line = strings.Repeat(" ", indent+2) + f
			continue
		}
		line += "; " + f
	}
	t.flow(indent+2, part{dim, line})
}

// where prints a place behind the parts of start: in one line if it can be made to fit, else with one line for each
// function.
func (t *textReport) where(indent int, start []part, p Place, ip Hex) {
	module, source := moduleWords(p), sourceLine(p)
	names := outward(p, ip)
	if module != "" {
		module = " " + module
	}
	if t.width == 0 {
		t.line(append(start, whereParts(chainOf(names), module, source)...)...)
		return
	}
	room := t.width - columns(start) - utf8.RuneCountInString(module)
	least := 0
	if source != "" {
		least = 2 + utf8.RuneCountInString(shortPath(source, 0))
	}
	shorter := slices.Clone(names)
	for _, shorten := range []func(string) string{strings.TrimSpace, withoutDefaults, withoutParameters} {
		for i := range shorter {
			shorter[i] = shorten(shorter[i])
		}
		if name := chainOf(shorter); fits(name, room-least) {
			source = shortPath(source, room-utf8.RuneCountInString(name)-2)
			t.line(append(start, whereParts(name, module, source)...)...)
			return
		}
	}
	t.nest(indent, start, names, module, source)
}

// chainOf is a chain of functions, the innermost first, in one line.
func chainOf(names []string) string { return strings.Join(names, " inlined into ") }

// nest prints the functions of a place one under the other, the source beside the innermost, where it is, if that fits.
func (t *textReport) nest(indent int, start []part, names []string, module, source string) {
	space := strings.Repeat(" ", min(indent+2, t.width/2))
	for i, name := range names {
		line, after := start, ""
		if i > 0 {
			line = []part{{plain, space + "inlined into "}}
		}
		if i == len(names)-1 {
			after = module
		}
		room := t.width - columns(line) - utf8.RuneCountInString(after)
		name = shortName(name, room)
		line = append(line, part{bold, name}, part{dim, after})
		if source != "" {
			room -= utf8.RuneCountInString(name) + 2
			if short := shortPath(source, room); fits(short, room) {
				line, source = append(line, part{plain, "  "}, part{cyan, short}), ""
			}
		}
		t.line(line...)
		if source != "" {
			t.line(part{plain, space}, part{cyan, shortPath(source, t.width-len(space))})
			source = ""
		}
	}
}

func fits(s string, room int) bool { return utf8.RuneCountInString(s) <= room }

// whereParts is a place with its parts in their colours.
func whereParts(name, module, source string) []part {
	parts := []part{{bold, name}, {dim, module}}
	if source != "" {
		parts = append(parts, part{plain, "  "}, part{cyan, source})
	}
	return parts
}

// callers prints the call stacks of a site.
func (t *textReport) callers(indent int, s *Site) {
	space := strings.Repeat(" ", indent)
	if s.Stacks == nil {
		t.line(part{dim, space + "no callers were recorded"})
		return
	}
	paths := callPaths(s)
	for _, p := range top(paths, t.o.Top) {
		what := "called from, by frame pointers:"
		if len(p.frames) == 0 {
			what = p.ends
		}
		t.line(part{dim, fmt.Sprintf("%s%*s  %s", space, shareWidth, share(p.hits, s.Hits), what)})
		inner := indent + shareWidth + 2
		for _, f := range p.frames {
			t.where(inner, []part{{plain, strings.Repeat(" ", inner)}}, f.Place, f.IP)
		}
		if p.ends != "" && len(p.frames) > 0 {
			t.line(part{dim, strings.Repeat(" ", inner) + p.ends})
		}
	}
	if left := more(len(paths), t.o.Top, "call stack"); left != "" {
		t.line(part{dim, space + left})
	}
}
