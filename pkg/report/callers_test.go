package report

import "testing"

// TestNoCaller: a chain that stops at once, and one that goes on with what is no address of code, lead to no caller alike.
func TestNoCaller(t *testing.T) {
	known := Caller{IP: hex(0x400), Place: Place{Func: "main"}}
	s := &Site{Stacks: []Stack{
		{Hits: 2},
		{Hits: 3, Frames: []Caller{{IP: hex(0x55)}, known}},
		{Hits: 4, Frames: []Caller{{IP: hex(0x56)}}},
		{Hits: 1, Frames: []Caller{known}},
		{Hits: 5, Other: true},
	}}
	paths := callPaths(s)
	if len(paths) != 3 || paths[0].hits != 9 || paths[0].ends != "no frame pointer leads to a caller" || len(paths[0].frames) != 0 ||
		paths[1].hits != 5 || paths[1].ends == paths[0].ends || paths[2].hits != 1 || paths[2].ends != "" || len(paths[2].frames) != 1 {
		t.Errorf("%+v", paths)
	}
}
