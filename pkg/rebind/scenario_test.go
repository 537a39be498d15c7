package rebind

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"xw/pkg/wire"
)

// threeLevels is a session with the header slot at 0x1000 (watch 0), the pointer 0x10 behind it (watch 1) and the leaf
// 0x28 behind that (watch 2).
func threeLevels() wire.Session {
	return wire.Session{Target: wire.Target{Bits: 64}, Watches: []wire.Watch{
		{Name: "h", Addr: wire.Some(0x1000), Len: 8, Role: "header", Chain: wire.Some(0)},
		{Name: "p", Len: 8, Role: "pointer", Chain: wire.Some(0), Parent: wire.Some(0), Offset: 0x10},
		{Name: "leaf", Len: 4, Role: "leaf", Chain: wire.Some(0), Parent: wire.Some(1), Offset: 0x28},
	}}
}

func threeBound() []wire.Record {
	return []wire.Record{boundAt(1*ms+5000, 0, 1, 0x1000, wire.Some(0x2000)), boundAt(1*ms+6000, 1, 1, 0x2010, wire.Some(0x5000)),
		boundAt(1*ms+7000, 2, 1, 0x5028, wire.Opt{})}
}

func hitAt(time uint64, watch uint32, addr, value uint64) *wire.Sample {
	return &wire.Sample{Time: time, Watch: watch, Generation: 1, Addr: addr, Value: wire.Some(value)}
}

func blankHit(time uint64, watch uint32, addr uint64) *wire.Sample {
	return &wire.Sample{Time: time, Watch: watch, Generation: 1, Addr: addr}
}

func unbound(time uint64, watch uint32, gen uint64, errno uint32) *wire.Bound {
	return &wire.Bound{Time: time, Watch: watch, Generation: gen, Errno: errno, Start: time - 1000}
}

func refusal(t *testing.T, time uint64, command wire.Record) *wire.ControlRecord {
	return &wire.ControlRecord{Time: time, Reason: "no", Bin: encodeAll(t, command)}
}

// outcome returns what a Machine makes of records: a line for each command and each record added, times in ms.
func outcome(t *testing.T, s wire.Session, memory Memory, records ...wire.Record) []string {
	t.Helper()
	var lines []string
	send := func(r wire.Record) error {
		switch r := r.(type) {
		case *wire.Bind:
			lines = append(lines, fmt.Sprintf("bind %d gen %d at 0x%x cause %d", r.Watch, r.Generation, r.Addr, r.CauseTime/ms))
		case *wire.Unbind:
			lines = append(lines, fmt.Sprintf("unbind %d gen %d cause %d", r.Watch, r.Generation, r.CauseTime/ms))
		case *wire.Read:
			lines = append(lines, fmt.Sprintf("read %d gen %d", r.Watch, r.Generation))
		}
		return nil
	}
	m, err := NewMachine(&s, send, memory, func(string, ...any) {})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		for _, added := range m.Take(r) {
			switch a := added.(type) {
			case *wire.Rebind:
				lines = append(lines, fmt.Sprintf("rebind %d gen %d cause %d", a.Watch, a.Generation, a.CauseTime/ms))
			case *wire.Gap:
				lines = append(lines, fmt.Sprintf("gap %s %d to %d: %s", a.Reason, a.From.V/ms, a.To.V/ms, a.Detail))
			}
		}
	}
	return lines
}

func TestScenarios(t *testing.T) {
	future := uint64(1 << 60)
	for _, test := range []struct {
		name    string
		records []wire.Record // after threeBound
		want    string
	}{
		{"a loss while a slot is bound concerns the new slot",
			[]wire.Record{hitAt(10*ms, 0, 0x1000, 0x3000), &wire.Lost{Time: 11 * ms, N: 1},
				&wire.Bound{Time: 12 * ms, Watch: 1, Generation: 2, Addr: wire.Some(0x3010), Value: wire.Some(0x6000), Start: 10 * ms},
				boundAt(13*ms, 2, 2, 0x6028, wire.Opt{}), boundAt(14*ms, 0, 1, 0x1000, wire.Some(0x3000))},
			`bind 1 gen 2 at 0x3010 cause 10
			 bind 2 gen 2 at 0x6028 cause 10
			 rebind 1 gen 2 cause 10
			 read 0 gen 1
			 rebind 2 gen 2 cause 10
			 read 1 gen 2`},
		{"what was refused is tried again under a slot that was bound since",
			[]wire.Record{hitAt(10*ms, 1, 0x2010, 0x6000), hitAt(12*ms, 0, 0x1000, 0x3000), unbound(14*ms, 2, 2, 28),
				boundAt(16*ms, 1, 3, 0x3010, wire.Some(0x6000))},
			`bind 2 gen 2 at 0x6028 cause 10
			 bind 1 gen 3 at 0x3010 cause 12
			 rebind 2 gen 2 cause 10
			 bind 2 gen 3 at 0x6028 cause 12
			 rebind 1 gen 3 cause 12`},
		{"an answer with an error is none, whatever address it gives",
			[]wire.Record{hitAt(10*ms, 1, 0x2010, 0x6000),
				&wire.Bound{Time: 11 * ms, Watch: 2, Generation: 2, Addr: wire.Some(0x6028), Errno: 22}},
			`bind 2 gen 2 at 0x6028 cause 10
			 rebind 2 gen 2 cause 10`},
		{"after an error the old place is left",
			[]wire.Record{hitAt(10*ms, 1, 0x2010, 0x6000),
				&wire.Bound{Time: 11 * ms, Watch: 2, Generation: 2, Addr: wire.Some(0x5028), Errno: 22}},
			`bind 2 gen 2 at 0x6028 cause 10
			 unbind 2 gen 3 cause 10
			 rebind 2 gen 2 cause 10`},
		{"another xw-rebind was faster: ours is stale",
			[]wire.Record{hitAt(10*ms, 1, 0x2010, 0x6000), boundAt(11*ms, 2, 5, 0x7028, wire.Opt{}),
				refusal(t, 11*ms, &wire.Bind{Watch: 2, Generation: 2, Addr: 0x6028, CauseTime: 10 * ms}),
				hitAt(20*ms, 1, 0x2010, 0x6000)},
			`bind 2 gen 2 at 0x6028 cause 10
			 unbind 2 gen 6 cause 10`},
		{"stores before the answer, out of order",
			[]wire.Record{hitAt(10*ms, 0, 0x1000, 0x3000), hitAt(12*ms, 1, 0x3010, 0x7000), hitAt(11*ms, 1, 0x3010, 0x6000),
				&wire.Bound{Time: 13 * ms, Watch: 1, Generation: 2, Addr: wire.Some(0x3010), Value: wire.Some(0x7000), Start: 10 * ms}},
			`bind 1 gen 2 at 0x3010 cause 10
			 bind 2 gen 2 at 0x7028 cause 10
			 rebind 1 gen 2 cause 10`},
		{"an answer after it was given up",
			[]wire.Record{hitAt(10*ms, 1, 0x2010, 0x6000), &wire.Comm{Time: 3000 * ms}, boundAt(3001*ms, 2, 2, 0x6028, wire.Opt{}),
				boundAt(3002*ms, 2, 3, 0x6028, wire.Opt{})},
			`bind 2 gen 2 at 0x6028 cause 10
			 bind 2 gen 3 at 0x6028 cause 10
			 rebind 2 gen 2 cause 10
			 rebind 2 gen 3 cause 10`},
		{"an old announcement",
			[]wire.Record{hitAt(10*ms, 1, 0x2010, 0x6000), boundAt(11*ms, 2, 2, 0x6028, wire.Opt{}),
				boundAt(12*ms, 2, 1, 0x5028, wire.Opt{})},
			`bind 2 gen 2 at 0x6028 cause 10
			 rebind 2 gen 2 cause 10`},
		{"the leaf's generation is not below its pointer's",
			[]wire.Record{hitAt(10*ms, 1, 0x2010, 0), unbound(11*ms, 2, 2, 0),
				hitAt(20*ms, 0, 0x1000, 0x3000), boundAt(21*ms, 1, 3, 0x3010, wire.Some(0)),
				hitAt(30*ms, 0, 0x1000, 0x4000), boundAt(31*ms, 1, 4, 0x4010, wire.Some(0)),
				hitAt(40*ms, 1, 0x4010, 0x6000)},
			`unbind 2 gen 2 cause 10
			 rebind 2 gen 2 cause 10
			 bind 1 gen 3 at 0x3010 cause 20
			 rebind 1 gen 3 cause 20
			 gap blind 20 to 21: the leaf was gone before it could be followed
			 bind 1 gen 4 at 0x4010 cause 30
			 rebind 1 gen 4 cause 30
			 gap blind 30 to 31: the leaf was gone before it could be followed
			 bind 2 gen 4 at 0x6028 cause 40`},
		{"no generation is left",
			[]wire.Record{boundAt(5*ms, 2, math.MaxUint64, 0x5028, wire.Opt{}), hitAt(10*ms, 1, 0x2010, 0x6000), endAt(11 * ms)},
			`gap blind 10 to 11: the session ended before the leaf could follow`},
		{"a store without a value, after an error",
			[]wire.Record{hitAt(10*ms, 1, 0x2010, 0x6000), unbound(11*ms, 2, 2, 22), blankHit(20*ms, 1, 0x2010)},
			`bind 2 gen 2 at 0x6028 cause 10
			 rebind 2 gen 2 cause 10
			 bind 2 gen 3 at 0x6028 cause 20`},
		{"a store in the future is not read for ever",
			[]wire.Record{blankHit(future, 1, 0x2010), boundAt(10*ms, 1, 1, 0x2010, wire.Some(0x5000)),
				boundAt(11*ms, 1, 1, 0x2010, wire.Some(0x5000)), boundAt(12*ms, 1, 1, 0x2010, wire.Some(0x5000)),
				boundAt(13*ms, 1, 1, 0x2010, wire.Some(0x5000))},
			`read 1 gen 1
			 read 1 gen 1
			 read 1 gen 1`},
		{"a pause of a slot", []wire.Record{&wire.Pause{Watch: 1, From: 9 * ms, To: 10 * ms}}, `read 1 gen 1`},
		{"a pause of the leaf", []wire.Record{&wire.Pause{Watch: 2, From: 9 * ms, To: 10 * ms}}, ``},
		{"sampling was throttled", []wire.Record{&wire.Throttle{Time: 10 * ms, Watch: wire.Some(0), On: true}}, ``},
		{"sampling goes on", []wire.Record{&wire.Throttle{Time: 10 * ms, Watch: wire.Some(0)}}, `read 0 gen 1`},
		{"something was not seen",
			[]wire.Record{&wire.Gap{Time: 10 * ms, Reason: "unwatched_task"}, boundAt(11*ms, 0, 1, 0x1000, wire.Some(0x2000))},
			`read 0 gen 1
			 read 1 gen 1`},
		{"something could not be decoded", []wire.Record{&wire.Malformed{}}, `read 0 gen 1`},
		{"reading is refused",
			[]wire.Record{blankHit(10*ms, 1, 0x2010), refusal(t, 11*ms, &wire.Read{Watch: 1, Generation: 1}), endAt(12 * ms)},
			`read 1 gen 1
			 unbind 2 gen 2 cause 10
			 gap blind 10 to 0: the pointer in p could not be read
			 gap blind 10 to 12: the session ended before the leaf could follow`},
		{"a store tells what cannot be read",
			[]wire.Record{boundAt(10*ms, 1, 1, 0x2010, wire.Opt{}), hitAt(10*ms+ms/2, 1, 0x2010, 0x6000),
				boundAt(11*ms, 2, 2, 0x6028, wire.Opt{})},
			`bind 2 gen 2 at 0x6028 cause 10
			 rebind 2 gen 2 cause 10`},
		{"two stores in an order that no reading tells",
			[]wire.Record{hitAt(10*ms, 1, 0x2010, 0x6000), boundAt(11*ms, 2, 2, 0x6028, wire.Opt{}), otherCPU(hitAt(20*ms, 1, 0x2010, 0x7000)),
				hitAt(20*ms+ms/2, 1, 0x2010, 0x6000), boundAt(21*ms, 2, 3, 0x7028, wire.Opt{}), boundAt(22*ms, 1, 1, 0x2010, wire.Opt{}),
				boundAt(23*ms, 2, 4, 0x6028, wire.Opt{})},
			`bind 2 gen 2 at 0x6028 cause 10
			 rebind 2 gen 2 cause 10
			 bind 2 gen 3 at 0x7028 cause 20
			 bind 2 gen 4 at 0x6028 cause 20
			 rebind 2 gen 3 cause 20
			 rebind 2 gen 4 cause 20`},
		{"unbinding is refused",
			[]wire.Record{hitAt(10*ms, 1, 0x2010, 0), refusal(t, 11*ms, &wire.Unbind{Watch: 2, Generation: 2, CauseTime: 10 * ms})},
			`unbind 2 gen 2 cause 10`},
		{"a refusal of something else",
			[]wire.Record{hitAt(10*ms, 1, 0x2010, 0), refusal(t, 11*ms, &wire.Read{Watch: 1, Generation: 1}), unbound(12*ms, 2, 2, 0)},
			`unbind 2 gen 2 cause 10
			 rebind 2 gen 2 cause 10`},
	} {
		t.Run(test.name, func(t *testing.T) {
			check(t, outcome(t, threeLevels(), nil, append(threeBound(), test.records...)...), test.want)
		})
	}
}

func otherCPU(s *wire.Sample) *wire.Sample {
	s.CPU++
	return s
}

func check(t *testing.T, got []string, want string) {
	t.Helper()
	lines := strings.Split(want, "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	if g, w := strings.Join(got, "\n"), strings.Join(lines, "\n"); g != w {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}
}

// TestStart shows a chain as xw-open arms it: nothing is amiss until all of it has been shown, or a slot is hit.
func TestStart(t *testing.T) {
	start := threeBound()
	check(t, outcome(t, threeLevels(), nil, start...), "")
	check(t, outcome(t, threeLevels(), nil, start[0], hitAt(1*ms+5500, 0, 0x1000, 0x3000), start[1], start[2],
		boundAt(2*ms, 1, 2, 0x3010, wire.Some(0x5000))),
		`bind 1 gen 2 at 0x3010 cause 1
		 bind 2 gen 2 at 0x5028 cause 1
		 rebind 1 gen 2 cause 1`)
	check(t, outcome(t, threeLevels(), nil, start[0], start[1], unbound(1*ms+7000, 2, 1, 22), endAt(9*ms)),
		"gap blind 1 to 0: leaf could not be armed: errno 22")
	check(t, outcome(t, threeLevels(), nil, boundAt(1*ms, 0, 1, 0x1000, wire.Some(0)), unbound(1*ms+10, 1, 1, 0),
		unbound(1*ms+20, 2, 1, 0), hitAt(5*ms, 0, 0x1000, 0x2000)), "bind 1 gen 2 at 0x2010 cause 5")
}

// TestPlaces wants a leaf only where one can be.
func TestPlaces(t *testing.T) {
	for _, test := range []struct {
		bits, pointer uint64
		offset        int64
		length        uint64
		want          uint64 // 0 is nowhere
	}{
		{64, 0x2000, 0x10, 8, 0x2010},
		{64, 0x2000, -0x10, 8, 0x1ff0},
		{64, 0, 0x10, 8, 0},
		{64, 0x10, -0x10, 8, 0},
		{64, 0x8, -0x10, 8, 0},
		{64, 8, 0, 8, 8},
		{64, 0x2004, 0, 8, 0},
		{64, 0x2004, 4, 8, 0x2008},
		{64, 0x2004, 0, 4, 0x2004},
		{64, 0x2003, 0, 1, 0x2003},
		{64, 1<<47 - 4096 - 8, 0, 8, 1<<47 - 4096 - 8},
		{64, 1<<47 - 4096 - 8, 8, 8, 0},
		{64, 1<<47 - 4096, -8, 8, 0},
		{64, 1 << 63, 0, 8, 0},
		{64, math.MaxUint64, 1, 8, 0},
		{32, 0xfffffff8, 0, 8, 0xfffffff8},
		{32, 0xfffffff8, 8, 8, 0},
		{32, 0x1_0000_2000, 0, 4, 0},
	} {
		c := chain{bits: test.bits, levels: []level{{}, {offset: test.offset, length: test.length}}}
		if got := c.place(1, test.pointer); got.V != test.want || got.OK != (test.want != 0) {
			t.Errorf("%+v: got %+v", test, got)
		}
	}
}

// TestNarrowPointer hands a 32-bit chain values with more bytes, and a fixture beside answers that carry a value.
func TestNarrowPointer(t *testing.T) {
	s := threeLevels()
	s.Target.Bits = 32
	fixture, err := ParseFixture(bytes.NewReader([]byte("0x1000 0x9000\n0x3010 0xff00008000")))
	if err != nil {
		t.Fatal(err)
	}
	check(t, outcome(t, s, fixture, boundAt(1*ms, 0, 1, 0x1000, wire.Some(0xff_0000_2000)), boundAt(1*ms, 1, 1, 0x2010, wire.Some(0x5000)),
		boundAt(1*ms, 2, 1, 0x5028, wire.Opt{}), hitAt(5*ms, 0, 0x1000, 0xee_0000_3000), boundAt(6*ms, 1, 2, 0x3010, wire.Opt{})),
		`bind 1 gen 2 at 0x3010 cause 5
		 bind 2 gen 2 at 0x8028 cause 5
		 rebind 1 gen 2 cause 5`)
}
