package main

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"xw/pkg/wire"
)

// result is a whole events stream and the report made of it.
type result struct {
	t      testing.TB
	events []wire.Record
	err    error
	stream []byte
	reportJSON
}

func (l *eventLog) result(t testing.TB) *result {
	t.Helper()
	select {
	case <-l.done:
	case <-time.After(hangs):
		t.Fatal("the stream does not end")
	}
	s := &result{t: t, events: l.events, err: l.err, stream: l.bytes.Bytes()}
	if l.err != nil {
		t.Errorf("the events stream: %v", l.err)
	}
	out := s.render("json")
	if err := json.Unmarshal(out, &s.reportJSON); err != nil {
		t.Fatalf("the report is no JSON: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the report:\n%s", s.render("text", "--top", "0"))
		}
	})
	return s
}

// render runs xw-report on the stream.
func (s *result) render(format string, args ...string) []byte {
	s.t.Helper()
	cmd := exec.Command(binary(s.t, "xw-report"), append([]string{"--format", format}, args...)...)
	cmd.Stdin = bytes.NewReader(s.stream)
	out, err := cmd.Output()
	if err != nil {
		s.t.Errorf("xw-report --format %s: %v", format, err)
	}
	return out
}

// reportJSON is what the tests look at in a report.
type reportJSON struct {
	Complete bool
	Gaps     []gapJSON
	Notes    []string
	Watches  []struct {
		ID       uint64
		Role     string
		Place    string
		Addr     *string
		Hits     uint64
		Counted  uint64
		Accesses *uint64
	}
	Chains []chainJSON
}

type gapJSON struct {
	Kind   string
	Detail string
	Watch  *uint64
	Count  *uint64
	From   *uint64 `json:"from_ns"`
	To     *uint64 `json:"to_ns"`
}

type chainJSON struct {
	Name     string
	Levels   []uint64
	Rebinds  uint64
	Blind    uint64 `json:"blind_ns"`
	Longest  uint64 `json:"longest_blind_ns"`
	Bindings []bindingJSON
}

type bindingJSON struct {
	Watch      uint64
	Generation uint64
	Addr       *string
	From       *uint64 `json:"from_ns"`
	To         *uint64 `json:"to_ns"`
	Hits       uint64
	Errno      *uint64
	Value      *string
}

// addr is where a binding was armed, 0 for nowhere.
func (b bindingJSON) addr() uint64 {
	if b.Addr == nil {
		return 0
	}
	addr, _ := strconv.ParseUint(*b.Addr, 0, 64) // 0 fails the test that looks at it
	return addr
}

// bindings are those of one watch.
func (s *result) bindings(watch uint64) (list []bindingJSON) {
	for _, c := range s.Chains {
		for _, b := range c.Bindings {
			if b.Watch == watch {
				list = append(list, b)
			}
		}
	}
	return list
}

// blind are the gaps in which a watch was blind.
func (s *result) blind(watch uint64) (list []gapJSON) {
	for _, g := range s.Gaps {
		if g.Kind == "blind" && g.Watch != nil && *g.Watch == watch {
			list = append(list, g)
		}
	}
	return list
}

// gaps are those of other kinds than the given ones.
func (s *result) gapsBut(kinds ...string) (list []gapJSON) {
	for _, g := range s.Gaps {
		if !slices.Contains(kinds, g.Kind) {
			list = append(list, g)
		}
	}
	return list
}

// all returns the events of one type.
func all[T wire.Record](s *result) (list []T) {
	for _, e := range s.events {
		if r, ok := e.(T); ok {
			list = append(list, r)
		}
	}
	return list
}

// samples are the hits of a watch.
func (s *result) samples(watch uint32) (list []*wire.Sample) {
	for _, r := range all[*wire.Sample](s) {
		if r.Watch == watch {
			list = append(list, r)
		}
	}
	return list
}

// counted checks that every hit that the kernel counted is in the stream.
func (s *result) counted() {
	s.t.Helper()
	for _, c := range all[*wire.Counts](s) {
		if n := uint64(len(s.samples(c.Watch))); n+c.AfterStop != c.Counted || c.Lost != 0 || c.Missed != 0 {
			s.t.Errorf("watch %d: %d samples, %+v", c.Watch, n, c)
		}
	}
}
