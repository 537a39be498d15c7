package report

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The words that the renderers for people share. What they return is not yet fit for a terminal or a browser: the
// renderers escape it.

// subtitle says how and for how long was watched.
func subtitle(r *Report) string {
	s := &r.Session
	text := fmt.Sprintf("pid %s", r.Target.PID)
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
	case r.Running:
		text += ", running"
	}
	if s.Child != "" {
		text += ", command: " + string(s.Child)
	}
	return text
}

// title names the target.
func title(r *Report) string {
	return string(cmp.Or(r.Target.Comm, r.Target.Exe, "unknown program"))
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

// label tells watches apart: the levels of a chain share one name.
func label(w *Watch) string {
	if w.Role == "" || w.Role == "plain" {
		return string(w.Name)
	}
	return fmt.Sprintf("%s (%s)", w.Name, w.Role)
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
	return b.String()
}

// hitWords says how many hits of what kind there were.
func hitWords(r *Report, w *Watch) string {
	text := fmt.Sprintf("%s by %s", plural(w.Hits, "hit"), plural(w.threads, "thread"))
	if w.Hits == 0 {
		text = "no hits"
		if s := r.Session.ElapsedNS; s.OK {
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

// valueWords says what is known about the values of a watch.
func valueWords(w *Watch) []string {
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
	return lines
}

// span is the time of a gap, from the start of the session.
func span(r *Report, g *Gap) string {
	switch {
	case g.FromNS.OK && g.ToNS.OK && g.FromNS.V == g.ToNS.V:
		return "at " + clock(r, g.FromNS)
	case g.FromNS.OK && g.ToNS.OK:
		return fmt.Sprintf("from %s for %s", clock(r, g.FromNS), duration(g.ToNS.V-g.FromNS.V))
	case g.FromNS.OK:
		return "from " + clock(r, g.FromNS)
	}
	return ""
}

// clock is a time counted from the start of the session, in seconds.
func clock(r *Report, n Num) string {
	switch start := r.Session.StartNS; {
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

// plural is a count with its noun.
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

// more says how many entries of a list were left out; "" if none.
func more(have, shown int, what string) string {
	if shown == 0 || have <= shown {
		return ""
	}
	return plural(uint64(have-shown), what) + " more (--top 0 shows all)"
}
