package report

import (
	"fmt"
	"strings"
)

// The picture of a chain in time, in units of its viewBox.
const (
	pictureLeft  = 200.0
	pictureWidth = 790.0
	rowHeight    = 24
	// maxBars bounds what is drawn for a level. The bindings of more are too narrow to be seen.
	maxBars = 2000
)

type pageChain struct {
	Name, Verdict string
	Height, AxisY int
	End           string
	Rows          []pageRow
	Bindings      []pageBinding
	More          string
}

type pageRow struct {
	Label string
	TextY int
	Bars  []pageBar
}

type pageBar struct {
	Class    string
	X, Width string
	Y        int
	Title    string
}

type pageBinding struct {
	Level, Generation, Addr, From, Length string
	Hits                                  uint64
}

func newPageChain(r *Report, c *Chain, n int) pageChain {
	rows := len(c.Levels)
	p := pageChain{Name: printable(string(c.Name)), Verdict: chainWords(c), Height: rowHeight*rows + 24,
		AxisY: rowHeight*rows + 16, End: duration(endOf(r) - min(endOf(r), r.Session.StartNS.V))}
	for i, id := range c.Levels {
		if id < uint64(len(r.Watches)) {
			p.Rows = append(p.Rows, newPageRow(r, c, &r.Watches[id], i))
		}
	}
	for _, b := range top(c.Bindings, n) {
		p.Bindings = append(p.Bindings, newPageBinding(r, b))
	}
	p.More = more(len(c.Bindings), n, "binding")
	return p
}

func newPageRow(r *Report, c *Chain, w *Watch, i int) pageRow {
	y := rowHeight*i + 6
	row := pageRow{Label: printable(strings.TrimSpace(strings.Repeat("  ", i) + string(w.Role) + levelOffset(w))), TextY: y + 12}
	for _, b := range c.Bindings {
		if b.Watch == w.ID && b.Addr.OK && b.FromNS.OK && len(row.Bars) < maxBars {
			row.Bars = append(row.Bars, newBar(r, "bound", b.FromNS.V, bindingEnd(r, b), y, fmt.Sprintf("%s: %s", b.Addr, plural(b.Hits, "hit"))))
		}
	}
	blind := 0
	for _, g := range r.Gaps {
		if g.Kind == gapBlind && g.Watch == num(w.ID) && g.FromNS.OK && g.ToNS.OK && blind < maxBars {
			row.Bars = append(row.Bars, newBar(r, "blind", g.FromNS.V, g.ToNS.V, y, "blind for "+duration(g.ToNS.V-g.FromNS.V)))
			blind++
		}
	}
	return row
}

// levelOffset is what a level adds to the pointer above it.
func levelOffset(w *Watch) string {
	if !w.Parent.OK {
		return ""
	}
	return " " + signed(w.Offset)
}

// newBar draws a span of time, at least wide enough to be seen.
func newBar(r *Report, class string, from, to uint64, y int, title string) pageBar {
	start, end := r.Session.StartNS.V, endOf(r)
	at := func(t uint64) float64 {
		if end <= start {
			return pictureLeft
		}
		return pictureLeft + pictureWidth*float64(min(max(t, start), end)-start)/float64(end-start)
	}
	return pageBar{Class: class, X: fmt.Sprintf("%.2f", at(from)), Width: fmt.Sprintf("%.2f", max(0.8, at(to)-at(from)-0.6)), Y: y,
		Title: title}
}

func newPageBinding(r *Report, b Binding) pageBinding {
	p := pageBinding{Generation: b.Generation.String(), Addr: bindingAddr(b), From: clock(r, b.FromNS), Length: bindingLength(r, b),
		Hits: b.Hits}
	if mark := bindingMark(b); mark != "" {
		p.Addr += ", " + mark
	}
	if b.Watch < uint64(len(r.Watches)) {
		p.Level = printable(string(r.Watches[b.Watch].Role))
	}
	if b.Folded.OK {
		p.Generation, p.Addr, p.Length = "", b.Folded.String()+" more", ""
	}
	return p
}
