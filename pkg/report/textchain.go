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
	t.line(part{bold + cyan, "chain " + string(c.Name)}, part{plain, fmt.Sprintf("  %s, blind for %s in all, %s at the longest",
		plural(c.Rebinds, "re-binding"), duration(c.BlindNS), duration(c.LongestBlindNS))})
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

func signed(v int64) string {
	if v < 0 {
		return fmt.Sprintf("-%#x", -v)
	}
	return fmt.Sprintf("+%#x", v)
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
		t.line(part{plain, fmt.Sprintf("  %6s  %-18s %12s %12s %9d", "", plural(b.Folded.V, "more"), t.clock(b.FromNS), "", b.Hits)})
		return
	}
	addr := b.Addr.String()
	switch {
	case b.Errno.OK:
		addr = "refused"
	case !b.Addr.OK:
		addr = "none"
	}
	from, to := b.FromNS.V, t.end()
	if b.ToNS.OK {
		to = b.ToNS.V
	}
	length := "?"
	if b.FromNS.OK && to >= from {
		length = duration(to - from)
	}
	t.line(part{plain, fmt.Sprintf("  %6s  %-18s %12s %12s %9d  ", b.Generation, addr, t.clock(b.FromNS), length, b.Hits)},
		part{cyan, t.bar(b, to)})
}

// end is when the session ended, or the last that is known of it.
func (t *textReport) end() uint64 {
	if s := &t.r.Session; s.StartNS.OK && s.ElapsedNS.OK {
		return s.StartNS.V + s.ElapsedNS.V
	}
	var last uint64
	for i := range t.r.Watches {
		last = max(last, t.r.Watches[i].LastNS.V)
	}
	for _, c := range t.r.Chains {
		for _, b := range c.Bindings {
			last = max(last, b.FromNS.V, b.ToNS.V)
		}
	}
	return last
}

// bar draws the time of a binding within that of the session.
func (t *textReport) bar(b Binding, to uint64) string {
	start, end := t.r.Session.StartNS.V, t.end()
	if !b.FromNS.OK || end <= start || !b.Addr.OK {
		return ""
	}
	column := func(at uint64) int {
		at = min(max(at, start), end)
		return int(float64(at-start) / float64(end-start) * barWidth)
	}
	from := min(column(b.FromNS.V), barWidth-1)
	width := max(1, column(to)-from)
	return strings.Repeat("·", from) + strings.Repeat("█", width) + strings.Repeat("·", barWidth-from-width)
}
