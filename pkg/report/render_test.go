package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/pprof/profile"

	"xw/pkg/wire"
)

// reportOf reads a stream of testdata.
func reportOf(t testing.TB, name string) *Report {
	t.Helper()
	m, _ := read(t, open(t, "testdata/"+name+".xw.txt"), Options{Symbols: &fakeSymbols{}})
	return m.Report()
}

// TestPprof reads the profile back: no hit is missing in it.
func TestPprof(t *testing.T) {
	for name, want := range map[string]int64{"plain": 5, "stacks": 4, "kernel": 18, "two": 6, "nothing": 0} {
		r := reportOf(t, name)
		var b bytes.Buffer
		if err := Pprof(&b, r); err != nil {
			t.Fatal(err)
		}
		p, err := profile.Parse(&b)
		if err != nil {
			t.Fatal(err)
		}
		var sum int64
		for _, s := range p.Sample {
			sum += s.Value[0]
		}
		if sum != want || p.TimeNanos != 1700000000000000000 {
			t.Errorf("%s: %d hits at %d, want %d", name, sum, p.TimeNanos, want)
		}
	}
	r := reportOf(t, "stacks")
	var b bytes.Buffer
	if err := Pprof(&b, r); err != nil {
		t.Fatal(err)
	}
	p, err := profile.Parse(&b)
	if err != nil {
		t.Fatal(err)
	}
	var stacks []string
	for _, s := range p.Sample {
		var names []string
		for _, l := range s.Location {
			if len(l.Line) == 0 {
				names = append(names, fmt.Sprintf("%#x", l.Address))
				continue
			}
			names = append(names, l.Line[0].Function.Name)
		}
		stacks = append(stacks, strings.Join(append(names, s.Label["watch"]...), " "))
	}
	slices.Sort(stacks)
	want := []string{"rep_movs_alternative ns::table<int>::fill main counter", "work load main counter", "work main 0x401234 [unknown] counter"}
	if !slices.Equal(stacks, want) {
		t.Errorf("stacks %q", stacks)
	}
}

// TestInlinedLines: in a profile each function of an inlined chain has the line in it.
func TestInlinedLines(t *testing.T) {
	var b bytes.Buffer
	if err := Pprof(&b, reportOf(t, "plain")); err != nil {
		t.Fatal(err)
	}
	p, err := profile.Parse(&b)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range p.Location {
		if l.Address == 0x400520 {
			if len(l.Line) != 2 || l.Line[0].Function.Name != "set_hp" || l.Line[0].Line != 3 ||
				l.Line[1].Function.Name != "tick" || l.Line[1].Line != 20 {
				t.Errorf("lines %+v", l.Line)
			}
			return
		}
	}
	t.Error("no location of the inlined call")
}

// TestPageIsSelfContained: the page asks nothing of anyone and runs nothing, whatever the names in it say.
func TestPageIsSelfContained(t *testing.T) {
	for _, name := range []string{"plain", "chain", "hostile", "kernel"} {
		var b bytes.Buffer
		if err := HTMLReport(&b, reportOf(t, name), 20); err != nil {
			t.Fatal(err)
		}
		page := b.String()
		for _, bad := range []string{"<script", "src=", "href=", "url(", "@import", "http:", "https:", "<b>", "\x1b", "\u202e", "\u009b"} {
			if strings.Contains(page, bad) {
				t.Errorf("%s: the page has %q", name, bad)
			}
		}
	}
}

// TestNothingDrivesTheTerminal: only what the report itself colours is an escape sequence.
func TestNothingDrivesTheTerminal(t *testing.T) {
	r := reportOf(t, "hostile")
	for name, render := range map[string]func(*bytes.Buffer) error{
		"text":   func(b *bytes.Buffer) error { return TextReport(b, r, TextOptions{}) },
		"json":   func(b *bytes.Buffer) error { return JSON(b, r) },
		"folded": func(b *bytes.Buffer) error { return Folded(b, r) },
	} {
		var b bytes.Buffer
		if err := render(&b); err != nil {
			t.Fatal(err)
		}
		for _, c := range b.String() {
			if c != '\n' && (c < ' ' || c >= 0x7f && c < 0xa0 || c == 0x202e) {
				t.Errorf("%s: has %q", name, c)
			}
		}
	}
}

func TestWidth(t *testing.T) {
	r := reportOf(t, "lost")
	for _, width := range []int{1, 20, 80, 200} {
		var b bytes.Buffer
		if err := TextReport(&b, r, TextOptions{Width: width}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("width %d: line of %d: %q", width, n, line)
			}
		}
	}
}

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"plain": "plain", "grün 世界": "grün 世界", "a\x1b[31mb": `a\x1b[31mb`, "a\xffb": `a\xffb`, "\u202e": `\u202e`,
		"a\nb": `a\nb`, "\x7f": `\x7f`, "\u009b": `\u009b`, "\U000e0001": `\U000e0001`,
	} {
		if got := printable(in); got != want {
			t.Errorf("printable(%q) = %q, want %q", in, got, want)
		}
	}
}

// TestSchema: every key of the contract is there in every report, even of a stream that has next to nothing.
func TestSchema(t *testing.T) {
	streams, _ := filepath.Glob("testdata/*.json")
	if len(streams) == 0 {
		t.Fatal("no reports in testdata")
	}
	for _, name := range streams {
		var top map[string]any
		if err := json.NewDecoder(open(t, name)).Decode(&top); err != nil {
			t.Fatal(err)
		}
		keys(t, name, top, "schema complete gaps notes target session watches chains")
		keys(t, name, top["target"], "pid exe comm argv")
		keys(t, name, top["session"], "scope values kernel start_ns elapsed_ns stop_reason threads_at_attach threads_seen slots")
		each(t, name, top["gaps"], "kind count watch detail from_ns to_ns")
		watches := each(t, name, top["watches"], "id name place addr len access role slots hits accesses counted lost after_stop "+
			"first_ns last_ns threads last_value distinct_values distinct_values_exact sites")
		for _, w := range watches {
			each(t, name, w["slots"], "addr len")
			each(t, name, w["threads"], "tid comm hits")
			each(t, name, w["sites"], "ip insn_addr insn op func offset module file line origin hits accesses threads first_ns "+
				"last_ns last_value regs")
		}
		for _, c := range each(t, name, top["chains"], "name levels rebinds blind_ns bindings") {
			each(t, name, c["bindings"], "watch generation addr from_ns to_ns hits")
		}
	}
}

func keys(t *testing.T, name string, object any, want string) map[string]any {
	t.Helper()
	o, ok := object.(map[string]any)
	if !ok {
		t.Errorf("%s: %v is no object", name, object)
	}
	for _, key := range strings.Fields(want) {
		if _, ok := o[key]; !ok {
			t.Errorf("%s: no key %s", name, key)
		}
	}
	return o
}

func each(t *testing.T, name string, list any, want string) []map[string]any {
	t.Helper()
	l, ok := list.([]any)
	if !ok {
		t.Errorf("%s: %v is no list", name, list)
	}
	var out []map[string]any
	for _, o := range l {
		out = append(out, keys(t, name, o, want))
	}
	return out
}

// TestManyStacks: those beyond the limit keep their hits.
func TestManyStacks(t *testing.T) {
	m := newModel(t, nil)
	for i := range uint64(maxStacks + 100) {
		s := hit(i, 7, 0x400, 1)
		s.Callchain = []uint64{0x400, 0x1000 + i}
		m.Add(s)
	}
	site := finish(m, wire.Counts{Counted: maxStacks + 100}).Watches[0].Sites[0]
	last := site.Stacks[len(site.Stacks)-1]
	if len(site.Stacks) != maxStacks+1 || !last.Other || last.Hits != 100 {
		t.Errorf("%d stacks, the last %+v", len(site.Stacks), last)
	}
}
