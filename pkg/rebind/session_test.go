package rebind

import (
	"strings"
	"testing"

	"xw/pkg/wire"
)

func TestChainsOfHeader(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(s *wire.Session)
		err    string
	}{
		{"good", func(*wire.Session) {}, ""},
		{"plain watches only", func(s *wire.Session) { s.Watches = []wire.Watch{{Role: "plain"}} }, ""},
		{"bits", func(s *wire.Session) { s.Target.Bits = 16 }, "pointers of 16 bits"},
		{"two roots", func(s *wire.Session) { s.Watches[1].Parent = wire.Opt{} }, "watches 0 and 1 have the same parent"},
		{"no root", func(s *wire.Session) { s.Watches[0].Parent = wire.Some(1) }, "no watch is without a parent"},
		{"parent of another chain", func(s *wire.Session) { s.Watches[1].Parent = wire.Some(7) }, "no watch has the parent 0"},
		{"own parent", func(s *wire.Session) { s.Watches[1].Parent = wire.Some(1) }, "no watch has the parent 0"},
		{"long leaf", func(s *wire.Session) { s.Watches[1].Len = 16 }, "16 bytes do not fit"},
		{"odd leaf", func(s *wire.Session) { s.Watches[1].Len = 3 }, "3 bytes do not fit"},
		{"empty leaf", func(s *wire.Session) { s.Watches[1].Len = 0 }, "0 bytes do not fit"},
		{"leaf above", func(s *wire.Session) { s.Watches[0].Role = "leaf" }, `level 1 of 2 has the role "leaf"`},
		{"no leaf", func(s *wire.Session) { s.Watches[1].Role = "pointer" }, `level 2 of 2 has the role "pointer"`},
		{"lone leaf", func(s *wire.Session) { s.Watches = s.Watches[1:]; s.Watches[0].Parent = wire.Opt{} }, "without a slot above"},
	} {
		s := chainHeader().Session
		test.change(&s)
		_, err := NewMachine(&s, nil, nil, nil)
		if (err != nil) != (test.err != "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s: error %v, want %q", test.name, err, test.err)
		}
	}
}

// TestChainsAreFollowedApart interleaves two chains whose levels are mixed in the header.
func TestChainsAreFollowedApart(t *testing.T) {
	s := chainHeader().Session
	s.Watches = []wire.Watch{
		{Name: "b", Addr: wire.Some(0x8010), Len: 4, Role: "leaf", Chain: wire.Some(5), Parent: wire.Some(3), Offset: 0x10},
		{Name: "pa", Addr: wire.Some(0x1000), Len: 8, Role: "pointer", Chain: wire.Some(2)},
		{Name: "a", Addr: wire.Some(0x2010), Len: 4, Role: "leaf", Chain: wire.Some(2), Parent: wire.Some(1), Offset: 0x10},
		{Name: "pb", Addr: wire.Some(0x1008), Len: 8, Role: "pointer", Chain: wire.Some(5)},
	}
	var sent []wire.Record
	m, err := NewMachine(&s, func(r wire.Record) error { sent = append(sent, r); return nil }, nil, t.Errorf)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []wire.Record{
		boundAt(1*ms, 1, 1, 0x1000, wire.Some(0x2000)), boundAt(1*ms, 2, 1, 0x2010, wire.Opt{}),
		boundAt(1*ms, 3, 1, 0x1008, wire.Some(0x8000)), boundAt(1*ms, 0, 1, 0x8010, wire.Opt{}),
		&wire.Sample{Time: 10 * ms, Watch: 3, Generation: 1, Addr: 0x1008, Value: wire.Some(0x9000)},
		&wire.Sample{Time: 11 * ms, Watch: 1, Generation: 1, Addr: 0x1000, Value: wire.Some(0x3000)},
	} {
		m.Take(r)
	}
	want := []wire.Bind{{Watch: 0, Generation: 2, Addr: 0x9010, CauseTime: 10 * ms}, {Watch: 2, Generation: 2, Addr: 0x3010, CauseTime: 11 * ms}}
	if len(sent) != 2 || *sent[0].(*wire.Bind) != want[0] || *sent[1].(*wire.Bind) != want[1] {
		t.Errorf("sent %+v", sent)
	}
}
