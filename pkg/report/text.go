package report

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
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
	t.head()
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

// head says what was watched, how, and for how long.
func (t *textReport) head() {
	s := &t.r.Session
	name := cmp.Or(string(t.r.Target.Comm), string(t.r.Target.Exe), "unknown program")
	text := fmt.Sprintf(" pid %s", t.r.Target.PID)
	if s.ElapsedNS.OK {
		text += ", watched for " + duration(s.ElapsedNS.V)
	}
	if s.Scope != "" {
		text += ", scope " + string(s.Scope)
	}
	switch {
	case s.StopReason == "error":
		text += ", stopped by an error: " + string(s.Error)
	case s.StopReason != "":
		text += ", stopped: " + strings.ReplaceAll(string(s.StopReason), "_", " ")
	case t.r.Running:
		text += ", running"
	}
	if s.Child != "" {
		text += ", command: " + string(s.Child)
	}
	t.line(part{bold, name}, part{plain, text})
}

// watch prints the verdict on a watch and who accessed it.
func (t *textReport) watch(w *Watch) {
	t.line()
	t.line(part{bold + cyan, string(w.Name)}, part{plain, "  " + describe(w)})
	t.verdict(w)
	if w.Hits == 0 {
		return
	}
	t.sites(w)
	t.threads(w)
	t.values(w)
}

func accessWords(access Text) string {
	switch access {
	case "w":
		return "writes"
	case "rw":
		return "reads and writes"
	case "r":
		return "reads"
	case "x":
		return "execution"
	}
	return string(access)
}

// describe says what a watch is and where.
func describe(w *Watch) string {
	var b strings.Builder
	if w.Place != "" && w.Place != w.Name {
		fmt.Fprintf(&b, "%s  ", w.Place)
	}
	if w.Addr.OK {
		fmt.Fprintf(&b, "at %s, ", w.Addr)
	} else {
		b.WriteString("not bound at the start, ")
	}
	if w.Access != "x" {
		fmt.Fprintf(&b, "%s, ", plural(w.Len, "byte"))
	}
	b.WriteString(accessWords(w.Access))
	if w.Role != "" && w.Role != "plain" {
		fmt.Fprintf(&b, ", %s of a chain", w.Role)
	}
	return b.String()
}

// verdict says how many hits there were and whether they are all.
func (t *textReport) verdict(w *Watch) {
	hits := part{plain, "  " + t.hits(w)}
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

func (t *textReport) hits(w *Watch) string {
	text := fmt.Sprintf("%s by %s", plural(w.Hits, "hit"), plural(w.threads, "thread"))
	if w.Hits == 0 {
		text = "no hits"
		if s := t.r.Session.ElapsedNS; s.OK {
			text += " in " + duration(s.V)
		}
	}
	if w.Accesses.OK && w.Accesses.V != w.Hits {
		text += " in " + plural(w.Accesses.V, "access")
	}
	if w.AfterStop.V > 0 {
		text += fmt.Sprintf(", %d more after the stop", w.AfterStop.V)
	}
	return text
}

// missing sums up the gaps that concern a watch, one text for each kind.
func missing(r *Report, w *Watch) []string {
	var kinds []Text
	sums := map[Text]*gapSum{}
	for i := range r.Gaps {
		g := &r.Gaps[i]
		if g.Watch.OK && g.Watch.V != w.ID {
			continue
		}
		s := sums[g.Kind]
		if s == nil {
			s = &gapSum{}
			sums[g.Kind] = s
			kinds = append(kinds, g.Kind)
		}
		s.add(g)
	}
	var out []string
	for _, kind := range kinds {
		out = append(out, sums[kind].words(string(kind)))
	}
	return out
}

// gapSum sums gaps of one kind.
type gapSum struct {
	number uint64
	count  uint64
	time   uint64
}

func (s *gapSum) add(g *Gap) {
	s.number++
	s.count += g.Count.V
	if g.FromNS.OK && g.ToNS.OK {
		s.time += g.ToNS.V - g.FromNS.V
	}
}

// words says in a few words what is missing.
func (s *gapSum) words(kind string) string {
	switch kind {
	case gapLost:
		return fmt.Sprintf("%d lost", s.count)
	case gapTruncated:
		return "the stream ends too early"
	case gapBlind, gapPaused, gapThrottled:
		return fmt.Sprintf("%s for %s (%s)", kind, duration(s.time), plural(s.number, "time"))
	case gapCountMismatch:
		return fmt.Sprintf("%s differ from what the kernel counted", plural(s.count, "hit"))
	case gapMalformed:
		return plural(s.number, "malformed record")
	case gapControl:
		return plural(s.number, "refused command")
	}
	text := strings.ReplaceAll(kind, "_", " ")
	if s.number > 1 {
		text += fmt.Sprintf(" (%s)", plural(s.number, "time"))
	}
	return text
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

// values prints what is known about the values of a watch.
func (t *textReport) values(w *Watch) {
	var lines []string
	if w.DistinctValues.OK {
		floor := ""
		if !w.DistinctValuesExact {
			floor = "at least "
		}
		text := fmt.Sprintf("%s%s", floor, plural(w.DistinctValues.V, "distinct value"))
		if most := w.Values; len(most) > 0 && most[0].Hits > 1 {
			var list []string
			for _, v := range most[:min(len(most), 6)] {
				list = append(list, fmt.Sprintf("%s (%d)", v.Value, v.Hits))
			}
			text += ", most frequent " + strings.Join(list, ", ")
		}
		lines = append(lines, text)
	}
	if w.Silent.V > 0 {
		lines = append(lines, fmt.Sprintf("%s left the value as it was", plural(w.Silent.V, "write")))
	}
	if w.HandoffsThread > 0 {
		lines = append(lines, fmt.Sprintf("%s between threads, %d between CPUs", plural(w.HandoffsThread, "hand-off"), w.HandoffsCPU))
	}
	if len(lines) == 0 {
		return
	}
	t.line()
	for _, l := range lines {
		t.line(part{plain, "  " + l})
	}
}

// rest says how many entries of a list were left out.
func (t *textReport) rest(n int, what string) {
	if t.o.Top > 0 && n > t.o.Top {
		t.line(part{dim, fmt.Sprintf("  %s more (--top 0 shows all)", plural(uint64(n-t.o.Top), what))})
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
			text += " " + string(t.r.Watches[g.Watch.V].Name)
		}
		if g.TID.OK {
			text += " thread " + g.TID.String()
		}
		if g.Count.OK {
			text += " " + g.Count.String()
		}
		text += t.span(g)
		if g.Detail != "" {
			text += ": " + string(g.Detail)
		}
		t.line(part{yellow, "gap: " + string(g.Kind)}, part{plain, text})
	}
	t.rest(len(t.r.Gaps), "gap")
}

// span is the time of a gap, from the start of the session.
func (t *textReport) span(g *Gap) string {
	switch {
	case g.FromNS.OK && g.ToNS.OK && g.FromNS.V == g.ToNS.V:
		return " at " + t.clock(g.FromNS)
	case g.FromNS.OK && g.ToNS.OK:
		return fmt.Sprintf(" from %s for %s", t.clock(g.FromNS), duration(g.ToNS.V-g.FromNS.V))
	case g.FromNS.OK:
		return " from " + t.clock(g.FromNS)
	}
	return ""
}

// clock is a time counted from the start of the session, in seconds.
func (t *textReport) clock(n Num) string {
	switch start := t.r.Session.StartNS; {
	case !n.OK:
		return "?"
	case !start.OK:
		return n.String() + " ns"
	default:
		return strconv.FormatFloat(float64(int64(n.V-start.V))/1e9, 'f', 6, 64) + " s"
	}
}

// duration is a time in the unit that suits it, three digits or so.
func duration(ns uint64) string {
	d := time.Duration(ns)
	switch {
	case d >= time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 2, 64) + " s"
	case d >= time.Millisecond:
		return strconv.FormatFloat(float64(ns)/1e6, 'f', 2, 64) + " ms"
	case d >= time.Microsecond:
		return strconv.FormatFloat(float64(ns)/1e3, 'f', 1, 64) + " us"
	}
	return strconv.FormatUint(ns, 10) + " ns"
}

func plural(n uint64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if strings.HasSuffix(what, "s") {
		what += "e"
	}
	return strconv.FormatUint(n, 10) + " " + what + "s"
}

func share(n, of uint64) string {
	if of == 0 {
		return ""
	}
	return strconv.FormatFloat(100*float64(n)/float64(of), 'f', 1, 64) + "%"
}
