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
	t.flow(2, part{bold, title(r)}, part{plain, "  " + subtitle(r)})
	for _, l := range limits(r) {
		t.flow(2, part{dim, l})
	}
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
	t.flow(2, part{bold + cyan, label(w)}, part{plain, "  " + describe(w)})
	t.verdict(w)
	if w.Hits == 0 {
		return
	}
	t.sites(w)
	if w.threads > 1 {
		t.threads(w)
	}
	t.values(w)
}

// verdict says whether the hits of a watch are all, and how many they are.
func (t *textReport) verdict(w *Watch) {
	missing := missing(t.r, w)
	verdict := part{bold + green, "  complete    "}
	hits := hitWords(t.r, w)
	switch {
	case len(missing) > 0:
		verdict = part{bold + red, "  INCOMPLETE  "}
	case t.r.Running:
		verdict = part{bold, "  so far      "}
	}
	t.flow(len(verdict.text), verdict, part{plain, hits})
	for _, m := range missing {
		t.flow(16, part{red, "              " + m})
	}
}

// threads prints the threads of a watch.
func (t *textReport) threads(w *Watch) {
	row := func(hits uint64, tid, name string) {
		t.line(part{plain, fmt.Sprintf("  %*s  %*d  %7s  %s", shareWidth, share(hits, w.Hits), hitsWidth(w), hits, tid, name)})
	}
	t.line()
	t.line(part{dim, fmt.Sprintf("  %*s  %*s  %7s  %s", shareWidth, "share", hitsWidth(w), "hits", "tid", "thread")})
	for _, th := range top(w.Threads, t.o.Top) {
		if th.Folded.OK {
			row(th.Hits, "", plural(th.Folded.V, "other thread"))
			continue
		}
		row(th.Hits, th.TID.String(), string(cmp.Or(th.Comm, "?")))
	}
	t.rest(len(w.Threads), "thread")
}

// values prints what is known of the values of a watch and of those who fought for it.
func (t *textReport) values(w *Watch) {
	facts := valueWords(w)
	if len(facts) > 0 {
		t.line()
	}
	for _, f := range facts {
		t.flow(13, part{dim, fmt.Sprintf("  %-9s  ", f.Name)}, part{plain, f.Text})
	}
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
		t.flow(6, part{dim, "note: " + string(n)})
	}
}

// gaps lists what is missing, one by one.
func (t *textReport) gaps() {
	if len(t.r.Gaps) == 0 {
		return
	}
	t.line()
	shown := someGaps(t.r.Gaps, t.o.Top)
	for _, g := range shown {
		t.flow(5, part{yellow, "gap: " + string(g.Kind)}, part{plain, gapText(t.r, g)})
	}
	if left := len(t.r.Gaps) - len(shown); left > 0 {
		t.line(part{dim, more(len(t.r.Gaps), len(shown), "gap")})
	}
}
