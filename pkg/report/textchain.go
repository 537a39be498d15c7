package report

import (
	"fmt"
	"strings"
)

// barWidth is the number of columns of the picture of a chain in time.
const barWidth = 32

// chain draws a chain: its levels one under the other, each with its bindings in time.
func (t *textReport) chain(c *Chain) {
	t.line()
	t.line(part{bold + cyan, "chain " + string(c.Name)}, part{plain, "  " + chainWords(c)})
	for depth, id := range c.Levels {
		if id >= uint64(len(t.r.Watches)) {
			continue
		}
		w := &t.r.Watches[id]
		arrow := ""
		if depth > 0 {
			arrow = strings.Repeat("   ", depth-1) + "└─ " + signed(w.Offset) + " "
		}
		t.line(part{plain, "  " + arrow + string(w.Role)}, part{dim, fmt.Sprintf("  %s, %s", w.Place, plural(w.Hits, "hit"))})
		t.bindings(c, id)
	}
}

func (t *textReport) bindings(c *Chain, id uint64) {
	var list []Binding
	for _, b := range c.Bindings {
		if b.Watch == id {
			list = append(list, b)
		}
	}
	if len(list) == 0 {
		return
	}
	t.line(part{dim, fmt.Sprintf("  %6s  %-18s %12s %12s %9s", "gen", "address", "from", "for", "hits")})
	for _, b := range top(list, t.o.Top) {
		t.binding(b)
	}
	t.rest(len(list), "binding")
}

func (t *textReport) binding(b Binding) {
	if b.Folded.OK {
		t.line(part{plain, fmt.Sprintf("  %6s  %-18s %12s %12s %9d", "", b.Folded.String()+" more", clock(t.r, b.FromNS), "", b.Hits)})
		return
	}
	mark := bindingMark(b)
	if mark != "" {
		mark = "  " + mark
	}
	t.line(part{plain, fmt.Sprintf("  %6s  %-18s %12s %12s %9d  ", b.Generation, bindingAddr(b), clock(t.r, b.FromNS),
		bindingLength(t.r, b), b.Hits)},
		part{cyan, t.bar(b)}, part{dim, mark})
}

// bar draws the time of a binding within that of the session.
func (t *textReport) bar(b Binding) string {
	start, end := t.r.Session.StartNS.V, endOf(t.r)
	if !b.FromNS.OK || end <= start || !b.Addr.OK {
		return ""
	}
	column := func(at uint64) int {
		at = min(max(at, start), end)
		return int(float64(at-start) / float64(end-start) * barWidth)
	}
	from := min(column(b.FromNS.V), barWidth-1)
	width := max(1, column(bindingEnd(t.r, b))-from)
	return strings.Repeat("·", from) + strings.Repeat("█", width) + strings.Repeat("·", barWidth-from-width)
}
