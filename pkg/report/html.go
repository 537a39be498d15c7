package report

import (
	"cmp"
	_ "embed" // for the page's template
	"fmt"
	"html/template"
	"io"
	"strings"
)

//go:embed report.html.tmpl
var pageSource string

// HTMLReport writes r as one page that needs nothing else: no scripts, and no resources from elsewhere. top is how many
// entries of each list it shows, 0 for all.
func HTMLReport(w io.Writer, r *Report, top int) error {
	page, err := template.New("report").Parse(pageSource)
	if err != nil {
		return fmt.Errorf("parse page: %w", err)
	}
	return page.Execute(w, newPage(r, top))
}

// page and what it holds are texts ready to be shown. The template escapes them.
type page struct {
	Title, Subtitle string
	Limits          []string
	Running         bool
	Watches         []pageWatch
	Chains          []pageChain
	Notes           []string
	Gaps            []pageGap
	MoreGaps        string
}

type pageWatch struct {
	Name, What, Hits string
	Missing          []string
	Sites            []pageSite
	MoreSites        string
	Threads          []pageThread
	MoreThreads      string
	Values           []fact
}

type pageSite struct {
	pageShare
	Did                  string     // by the kernel
	Where                []pageName // innermost first
	Module, Line, From   string
	Contention           []string
	Insn, Threads, Value string
	Regs                 []string
	Stacks               []pageStack
}

type pageName struct{ Short, Whole string }

type pageShare struct {
	Share   string
	Percent float64
	Hits    uint64
}

type pageStack struct {
	Share  string
	Frames []string
}

type pageThread struct {
	pageShare
	TID, Name string
}

type pageGap struct{ Kind, Count, Watch, When, Detail string }

func newPage(r *Report, n int) *page {
	p := &page{Title: printable(title(r)), Subtitle: printable(subtitle(r)), Running: r.Running}
	for _, l := range limits(r) {
		p.Limits = append(p.Limits, printable(l))
	}
	for i := range r.Watches {
		p.Watches = append(p.Watches, newPageWatch(r, &r.Watches[i], n))
	}
	for i := range r.Chains {
		p.Chains = append(p.Chains, newPageChain(r, &r.Chains[i], n))
	}
	for _, note := range r.Notes {
		p.Notes = append(p.Notes, printable(string(note)))
	}
	gaps := someGaps(r.Gaps, n)
	for _, g := range gaps {
		p.Gaps = append(p.Gaps, newPageGap(r, g))
	}
	if left := len(r.Gaps) - len(gaps); left > 0 {
		p.MoreGaps = more(len(r.Gaps), len(gaps), "gap")
	}
	return p
}

func newPageGap(r *Report, g *Gap) pageGap {
	p := pageGap{Kind: printable(string(g.Kind)), When: span(r, g), Detail: printable(string(g.Detail))}
	if g.Count.OK {
		p.Count = g.Count.String()
	}
	if g.Watch.OK && g.Watch.V < uint64(len(r.Watches)) {
		p.Watch = printable(label(&r.Watches[g.Watch.V]))
	}
	return p
}

func newPageWatch(r *Report, w *Watch, n int) pageWatch {
	p := pageWatch{Name: printable(label(w)), What: printable(describe(w)), Hits: printable(hitWords(r, w)),
		Values: valueWords(w)}
	for _, m := range missing(r, w) {
		p.Missing = append(p.Missing, printable(m))
	}
	shown := w.askedSites()
	for _, s := range top(shown, n) {
		p.Sites = append(p.Sites, newPageSite(w, s, n))
	}
	p.MoreSites = strings.Trim(more(len(shown), n, "site")+"; "+filteredWords(w), "; ")
	if w.threads == 1 { // who it is has been said
		return p
	}
	for _, t := range top(w.Threads, n) {
		x := pageThread{pageShare: newShare(t.Hits, w.Hits), TID: t.TID.String(), Name: printable(string(cmp.Or(t.Comm, "?")))}
		if t.Folded.OK {
			x.TID, x.Name = "", plural(t.Folded.V, "other thread")
		}
		p.Threads = append(p.Threads, x)
	}
	p.MoreThreads = more(len(w.Threads), n, "thread")
	return p
}

func newShare(n, of uint64) pageShare {
	s := pageShare{Share: share(n, of), Hits: n}
	if of > 0 {
		s.Percent = 100 * float64(n) / float64(of)
	}
	return s
}

func pageNames(names []string) []pageName {
	out := make([]pageName, len(names))
	for i, name := range names {
		out[i] = pageName{Short: printable(withoutDefaults(name)), Whole: printable(name)}
	}
	return out
}

func newPageSite(w *Watch, s *Site, n int) pageSite {
	p := pageSite{
		pageShare: newShare(s.Hits, w.Hits),
		Did:       printable(kernelWords(w, s)), Where: pageNames(outward(s.Place, s.IP)), Module: printable(moduleWords(s.Place)), Line: printable(sourceLine(s.Place)),
		Insn: printable(instructionText(w, s)), Threads: printable(byWhom(s)), Value: change(s),
	}
	for _, c := range contention(s) {
		p.Contention = append(p.Contention, printable(c))
	}
	if s.User != nil {
		p.From = printable("from " + placeWords(s.User.Place, s.User.IP))
	}
	if s.Regs != nil {
		for i, name := range s.Regs.Names {
			p.Regs = append(p.Regs, printable(fmt.Sprintf("%-3s %#x", name, s.Regs.Values[i])))
		}
	}
	for _, path := range top(callPaths(s), n) {
		x := pageStack{Share: share(path.hits, s.Hits)}
		for _, f := range path.frames {
			x.Frames = append(x.Frames, printable(placeWords(f.Place, f.IP)))
		}
		if path.ends != "" {
			x.Frames = append(x.Frames, path.ends)
		}
		p.Stacks = append(p.Stacks, x)
	}
	return p
}
