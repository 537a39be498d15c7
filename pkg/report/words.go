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
	if s.Parts.V > 1 {
		text += fmt.Sprintf(" in %s streams", s.Parts)
	}
	if s.Scope != "" {
		text += ", scope " + string(s.Scope)
	}
	switch {
	case s.StopReason == "error":
		text += ", stopped by an error: " + string(s.Error)
	case s.StopReason != "":
		text += ", stopped: " + stopWords(s.StopReason)
	case r.Running:
		text += ", running"
	}
	if s.Child != "" {
		text += ", command: " + string(s.Child)
	}
	return text
}

func stopWords(reason Text) string {
	switch reason {
	case "duration":
		return "its time was up"
	case "max_events":
		return "it had the hits that were asked for"
	case "target_exec":
		return "the target started another program"
	case "downstream_closed":
		return "the reader had gone"
	case stopRotated:
		return "the capture goes on in another file"
	}
	return strings.ReplaceAll(string(reason), "_", " ")
}

// limits says what could not be seen in the session, and why.
func limits(r *Report) []string {
	var lines []string
	if s := &r.Session; s.Values == "off" {
		lines = append(lines, because("values were not read", s.ValuesReason))
	}
	if s := &r.Session; s.Kernel == "off" {
		lines = append(lines, because("hits made by the kernel were not seen", s.KernelReason))
	}
	return lines
}

func because(what string, reason Text) string {
	if reason != "" {
		what += " (" + string(reason) + ")"
	}
	return what
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
		fmt.Fprintf(&b, "%s ", w.Place)
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

// hitWords says how many hits of what kind there were, and what the kernel counted.
func hitWords(r *Report, w *Watch) string {
	text := "no hits"
	switch {
	case w.threads == 1 && len(w.Threads) == 1:
		text = fmt.Sprintf("%s by thread %s (%s)", plural(w.Hits, "hit"), w.Threads[0].TID, cmp.Or(w.Threads[0].Comm, "?"))
	case w.Hits > 0:
		text = fmt.Sprintf("%s by %s", plural(w.Hits, "hit"), plural(w.threads, "thread"))
	case r.Session.ElapsedNS.OK:
		text += " in " + duration(r.Session.ElapsedNS.V)
	}
	if w.Accesses.OK && w.Accesses.V != w.Hits {
		text += " in " + plural(w.Accesses.V, "access")
	}
	if w.AfterStop.V > 0 {
		text += fmt.Sprintf(", %d more after the stop", w.AfterStop.V)
	}
	switch {
	case !w.Counted.OK:
	case w.Counted.V == w.Hits+w.AfterStop.V:
		text += ", as the kernel counted"
	default:
		text += fmt.Sprintf("; the kernel counted %s", w.Counted)
	}
	return text
}

// fact is something known of a watch.
type fact struct{ Name, Text string }

// valueWords says what is known about the values of a watch.
func valueWords(w *Watch) []fact {
	var facts []fact
	if w.DistinctValues.OK {
		facts = append(facts, fact{"values", distinctWords(w)})
	}
	if w.Silent.V > 0 {
		facts = append(facts, fact{"silent", plural(w.Silent.V, "write") + " left the value as it was"})
	}
	if w.HandoffsThread > 0 {
		text := plural(w.HandoffsThread, "hit") + " came after one by another thread"
		if w.HandoffsCPU > 0 {
			text += fmt.Sprintf(", %d after one on another CPU", w.HandoffsCPU)
		}
		facts = append(facts, fact{"hand-offs", text})
	}
	return facts
}

// distinctWords says how many values there were, and the last one.
func distinctWords(w *Watch) string {
	if w.DistinctValues.V == 1 && w.Values[0].Hits == w.Hits {
		return "always " + w.Values[0].Value.String()
	}
	text := w.DistinctValues.String() + " distinct"
	if !w.DistinctValuesExact {
		text = "at least " + text
	}
	if w.LastValue.OK {
		text += ", the last " + w.LastValue.String()
	}
	if often := frequentWords(w); often != "" {
		text += "; " + often
	}
	return text
}

// fewValues is how many values are all listed. Of more only those are that stand out.
const fewValues = 6

// frequentWords lists the values that stand out: they came at a twentieth of the hits or more, and twice as often as they
// would if all came alike.
func frequentWords(w *Watch) string {
	var list []string
	few := w.DistinctValues.V <= fewValues
	for _, v := range w.Values[:min(len(w.Values), fewValues)] {
		if few || v.Hits*20 >= w.Hits && v.Hits*w.DistinctValues.V >= 2*w.Hits {
			list = append(list, fmt.Sprintf("%s (%s)", v.Value, share(v.Hits, w.Hits)))
		}
	}
	switch text := strings.Join(list, ", "); {
	case text == "", few:
		return text
	default:
		return "most frequent " + text
	}
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
