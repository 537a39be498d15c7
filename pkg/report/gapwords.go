package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// The words for what a report does not cover.

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
		text := sums[kind].words(string(kind))
		if kind == gapPaused {
			text = pauseWords(w, sums[kind].number)
		}
		out = append(out, text)
	}
	return out
}

// pauseWords says for which part of the time a watch was on.
func pauseWords(w *Watch, pauses uint64) string {
	text := fmt.Sprintf("paused for %s (%s)", duration(w.PausedNS.V), plural(pauses, "time"))
	if w.DutyCycle.OK {
		percent := math.Floor(w.DutyCycle.V*1000) / 10
		text += fmt.Sprintf(": watched %s%% of the time, and nothing is extrapolated from that", strconv.FormatFloat(percent, 'f', 1, 64))
	}
	return text
}

// gapSum sums gaps of one kind.
type gapSum struct {
	number uint64
	count  uint64
	time   uint64
	open   bool // one lasts until the end
}

func (s *gapSum) add(g *Gap) {
	s.number++
	s.count += g.Count.V
	if g.FromNS.OK && g.ToNS.OK {
		s.time += g.ToNS.V - g.FromNS.V
	}
	s.open = s.open || !g.ToNS.OK
}

func (s *gapSum) truncatedWords() string {
	const early = "the stream ends too early"
	switch missing := "no stream for " + duration(s.time); {
	case s.open && s.time > 0:
		return missing + ", and " + early
	case s.open:
		return early
	default:
		return missing
	}
}

// words says in a few words what is missing.
func (s *gapSum) words(kind string) string {
	switch kind {
	case gapLost:
		return fmt.Sprintf("%d lost", s.count)
	case gapTruncated:
		return s.truncatedWords()
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

// sameGaps is how many gaps of one kind and watch a list for people has: their sum stands at the watch.
const sameGaps = 5

// someGaps picks the gaps to show: at most most, and few of those that are alike; 0 is all.
func someGaps(gaps []Gap, most int) []*Gap {
	type alike struct {
		kind  Text
		watch Num
	}
	var shown []*Gap
	seen := map[alike]int{}
	for i := range gaps {
		g := &gaps[i]
		key := alike{g.Kind, g.Watch}
		seen[key]++
		if most == 0 || seen[key] <= sameGaps && len(shown) < most {
			shown = append(shown, g)
		}
	}
	return shown
}

// gapText is what is known of a gap.
func gapText(r *Report, g *Gap) string {
	text := ""
	if g.Watch.OK && g.Watch.V < uint64(len(r.Watches)) {
		text += " " + label(&r.Watches[g.Watch.V])
	}
	if g.TID.OK {
		text += " thread " + g.TID.String()
	}
	if g.Count.OK {
		text += " " + g.Count.String()
	}
	if when := span(r, g); when != "" {
		text += " " + when
	}
	if g.Detail != "" {
		text += ": " + string(g.Detail)
	}
	return text
}
