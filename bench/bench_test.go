package main

import (
	"strings"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		of   []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 3, 2}, 2.5}} {
		if got := median(test.of); got != test.want {
			t.Errorf("median of %v: %v, want %v", test.of, got, test.want)
		}
	}
}

func TestParse(t *testing.T) {
	if n, err := parsePerfStat("300000;;mem:0x601040/8:w;1000;100.00;;\n"); n != 300000 || err != nil {
		t.Errorf("perf stat: %d, %v", n, err)
	}
	if n, err := parsePerfStat("Events enabled\n"); err == nil {
		t.Errorf("perf stat without a count: %d", n)
	}
	if n, err := parsePerfStats("\nAggregated stats:\n   TOTAL events:  20012\n          SAMPLE events:      20000  (99.9%)\n"); n != 20000 || err != nil {
		t.Errorf("perf report --stats: %d, %v", n, err)
	}
	if n, err := parsePerfStats("   TOTAL events:  12\n"); n != 0 || err != nil {
		t.Errorf("perf report --stats without samples: %d, %v", n, err)
	}
	if n, err := parsePerfStats(""); err == nil {
		t.Errorf("perf report --stats that says nothing: %d", n)
	}
	if n := countHits("Attaching\nhit 1 400510\nno hit here\nhit 2 400510\n"); n != 2 {
		t.Errorf("%d hits", n)
	}
	rows, err := parseBlind("BenchmarkBlind/scope=cpu/values=bpf-2   1   300 us-max   98.5 us-p50   163 us-p99\n" +
		"BenchmarkBlind/scope=cpu/values=bpf-2   1   310 us-max   90.5 us-p50   161 us-p99\n")
	if err != nil || len(rows) != 1 || rows[0].how != "scope cpu, values bpf" || median(rows[0].p50) != 94.5 || median(rows[0].p99) != 162 {
		t.Errorf("blind: %+v, %v", rows, err)
	}
	if _, err := parseBlind("FAIL\n"); err == nil {
		t.Error("blind: nothing measured, and no error")
	}
}

// TestBars meets and misses bars, and does not know of what was not measured.
func TestBars(t *testing.T) {
	r := results{cost: []costRow{
		{tool: tool{name: "`perf stat`", floor: true}, ns: []float64{100}},
		{tool: tool{name: "xw"}, stores: 7, ns: []float64{121}, missed: []int{0, 2, 0}},
		{tool: tool{name: "xw, scope inherit"}, ns: []float64{119}, missed: []int{0}},
	}}
	verdicts := map[string]string{}
	for _, b := range r.bars() {
		verdicts[b.what] = b.figure + " " + b.verdict()
	}
	for what, want := range map[string]string{
		"xw: a hit costs at most 1.2 x the floor":                "1.21 MISSED",
		"xw, scope inherit: a hit costs at most 1.2 x the floor": "1.19 met",
		"xw: none of 7 hits missed, in any round":                "2 MISSED",
	} {
		if verdicts[what] != want {
			t.Errorf("%s: %q, want %q", what, verdicts[what], want)
		}
	}
	if err := r.missed(); err == nil || strings.Count(err.Error(), "bar missed") != 2 {
		t.Errorf("missed: %v", err)
	}
	if got := atMost("nothing", 0, 1).verdict(); got != "unknown" {
		t.Errorf("a figure that is not there: %s", got)
	}
}
