package report

import (
	"cmp"
	"fmt"
	"io"
)

// TextOptions say how a report is laid out for a person.
type TextOptions struct {
	Width     int // columns; 0: no limit
	Color     bool
	Top       int // entries of a list that are shown; 0: all
	Callchain bool
}

// TextReport writes r for a person in a terminal.
func TextReport(w io.Writer, r *Report, o TextOptions) error {
	t := &textReport{printer: newPrinter(w, o.Width, o.Color), r: r, o: o}
	t.line(part{bold, title(r)}, part{plain, " " + subtitle(r)})
	for i := range r.Watches {
		t.watch(&r.Watches[i])
	}
	for i := range r.Chains {
		t.chain(&r.Chains[i])
	}
	t.notes()
	t.gaps()
	return t.flush()
}

type textReport struct {
	*printer
	r *Report
	o TextOptions
}

// watch prints the verdict on a watch and who accessed it.
func (t *textReport) watch(w *Watch) {
	t.line()
	t.line(part{bold + cyan, label(w)}, part{plain, "  " + describe(w)})
	t.verdict(w)
	if w.Hits == 0 {
		return
	}
	t.sites(w)
	t.threads(w)
	if lines := valueWords(w); len(lines) > 0 {
		t.line()
		for _, l := range lines {
			t.line(part{plain, "  " + l})
		}
	}
}

// verdict says how many hits there were and whether they are all.
func (t *textReport) verdict(w *Watch) {
	hits := part{plain, "  " + hitWords(t.r, w)}
	missing := missing(t.r, w)
	switch {
	case len(missing) > 0:
		t.line(hits, part{bold + red, "  INCOMPLETE"})
		for _, m := range missing {
			t.line(part{red, "    " + m})
		}
	case t.r.Running:
		t.line(hits, part{plain, " so far"})
	default:
		t.line(hits, part{bold + green, fmt.Sprintf("  complete: the kernel counted %s", w.Counted)})
	}
}

// threads prints the threads of a watch.
func (t *textReport) threads(w *Watch) {
	t.line()
	t.line(part{dim, fmt.Sprintf("  %7s %9s  %7s  %s", "share", "hits", "tid", "thread")})
	for _, th := range top(w.Threads, t.o.Top) {
		if th.Folded.OK {
			t.line(part{plain, fmt.Sprintf("  %7s %9d  %7s  %s", share(th.Hits, w.Hits), th.Hits, "",
				plural(th.Folded.V, "other thread"))})
			continue
		}
		t.line(part{plain, fmt.Sprintf("  %7s %9d  %7s  %s", share(th.Hits, w.Hits), th.Hits, th.TID, cmp.Or(th.Comm, "?"))})
	}
	t.rest(len(w.Threads), "thread")
}

// rest says how many entries of a list were left out.
func (t *textReport) rest(n int, what string) {
	if left := more(n, t.o.Top, what); left != "" {
		t.line(part{dim, "  " + left})
	}
}

func top[T any](list []T, n int) []T {
	if n > 0 && len(list) > n {
		return list[:n]
	}
	return list
}

func (t *textReport) notes() {
	if len(t.r.Notes) == 0 {
		return
	}
	t.line()
	for _, n := range t.r.Notes {
		t.line(part{dim, "note: " + string(n)})
	}
}

// gaps lists what is missing, one by one.
func (t *textReport) gaps() {
	if len(t.r.Gaps) == 0 {
		return
	}
	t.line()
	for i := range top(t.r.Gaps, t.o.Top) {
		g := &t.r.Gaps[i]
		text := ""
		if g.Watch.OK && g.Watch.V < uint64(len(t.r.Watches)) {
			text += " " + label(&t.r.Watches[g.Watch.V])
		}
		if g.TID.OK {
			text += " thread " + g.TID.String()
		}
		if g.Count.OK {
			text += " " + g.Count.String()
		}
		if when := span(t.r, g); when != "" {
			text += " " + when
		}
		if g.Detail != "" {
			text += ": " + string(g.Detail)
		}
		t.line(part{yellow, "gap: " + string(g.Kind)}, part{plain, text})
	}
	t.rest(len(t.r.Gaps), "gap")
}
