package symbol

import (
	"testing"

	"xw/pkg/wire"
)

// newResolver returns a resolver of target 7 whose session began at 1000 and that finds no process and no kernel.
func newResolver(t *testing.T) *Resolver {
	t.Helper()
	r := NewResolver(Options{Session: &wire.Session{Target: wire.Target{PID: 7}, StartNS: 1000}, Proc: t.TempDir()})
	t.Cleanup(r.Close)
	return r
}

func TestMappings(t *testing.T) {
	r := newResolver(t)
	add := func(pid uint32, time, start, size uint64, path string) {
		r.AddMap(&wire.Mmap{PID: pid, Time: time, Start: start, Len: size, Path: path, Prot: protExec})
	}
	add(7, 1000, 0x1000, 0x4000, "/first")
	add(7, 2000, 0x2000, 0x1000, "/second")
	add(7, 4000, 0x2000, 0x1000, "/fourth")
	add(7, 3000, 0x2000, 0x1000, "/third") // late
	add(7, 1000, 0x1000_0000_0000, 1<<40, "/wide")
	add(7, 5000, 0x1000_0000_2000, 0x1000, "/in wide")
	add(7, 1000, 0xffff_ffff_ffff_f000, 0x2000, "/wraps")
	add(7, 1000, 0x9000, 0, "/empty")
	r.AddFork(&wire.Fork{PID: 8, PPID: 7, TID: 8, PTID: 7})
	r.AddFork(&wire.Fork{PID: 7, PPID: 7, TID: 71, PTID: 7}) // a thread
	add(8, 2500, 0x3000, 0x1000, "/child")
	r.AddExec(&wire.Exec{PID: 8, TID: 8, Time: 6000})
	add(8, 6001, 0x1000, 0x1000, "/new program")
	for _, c := range []struct {
		pid        uint32
		addr, time uint64
		want       string
	}{
		{7, 0x1000, 1500, "/first"},
		{7, 0x1000, 1, "/first"}, // mappings of the start were there before
		{7, 0x4fff, 9000, "/first"},
		{7, 0x5000, 9000, ""},
		{7, 0xfff, 9000, ""},
		{7, 0x2800, 1999, "/first"},
		{7, 0x2800, 2000, "/second"},
		{7, 0x2800, 3500, "/third"},
		{7, 0x2800, 4000, "/fourth"},
		{7, 0x3000, 4000, "/first"},
		{7, 0x1000_0000_2000, 4000, "/wide"},
		{7, 0x1000_0000_2000, 5000, "/in wide"},
		{7, 0x10ff_ffff_ffff, 5000, "/wide"},
		{7, 0x9000, 5000, ""},
		{8, 0x3000, 2499, "/first"},
		{8, 0x3000, 2500, "/child"},
		{8, 0x2000, 4000, "/fourth"},
		{8, 0x1000, 7000, "/new program"},
		{9, 0x1000, 7000, "/first"}, // unknown, so it shares the target's memory
	} {
		got := ""
		if m := r.mapping(c.pid, c.addr, c.time); m != nil {
			got = m.path
		}
		if got != c.want {
			t.Errorf("pid %d, %#x at %d: got %q, expected %q", c.pid, c.addr, c.time, got, c.want)
		}
	}
}

func TestExecDropsMappings(t *testing.T) {
	r := newResolver(t)
	r.AddMap(&wire.Mmap{PID: 7, Time: 1000, Start: 0x1000, Len: 0x1000, Path: "/old"})
	r.AddExec(&wire.Exec{PID: 7, TID: 7, Time: 3000})
	if m := r.mapping(7, 0x1000, 2999); m == nil || m.path != "/old" {
		t.Errorf("before: %+v", m)
	}
	if m := r.mapping(7, 0x1000, 3000); m != nil {
		t.Errorf("after: %+v", m)
	}
}

// A process that maps the same thing over and over costs no memory.
func TestRepeatedMapping(t *testing.T) {
	r := newResolver(t)
	for i := range uint64(100) {
		r.AddMap(&wire.Mmap{PID: 7, Time: 1000 + i, Start: 0x1000, Len: 0x1000, Path: "/lib"})
	}
	if n := len(r.tables[7].buckets[0]); n != 1 {
		t.Errorf("%d mappings, expected 1", n)
	}
}

func TestUnnamedPlaces(t *testing.T) {
	r := newResolver(t)
	for i, path := range []string{"", "//anon", "[heap]", "[vdso]", "/memfd:jit", "/gone/lib.so (deleted)"} {
		r.AddMap(&wire.Mmap{PID: 7, Time: 1000, Start: uint64(i+1) << 16, Len: 0x1000, Path: path, Prot: protExec})
	}
	for i, want := range []Frame{
		{Module: "[anon]"}, {Module: "[anon]"}, {Module: "[heap]"}, {Module: "[vdso]", Note: "no build id of the vdso was recorded"},
		{Module: "/memfd:jit"},
		{Module: "lib.so", Path: "/gone/lib.so", FileOffset: wire.Some(5),
			Note: "captured on another machine or before a reboot, and without a build id: --symfs DIR says where its files are"},
		{Note: "no mapping known at this address"},
	} {
		want.Line = -1
		got := r.Resolve(7, uint64(i+1)<<16+5, 2000)
		if got.Module != want.Module || got.Path != want.Path || got.Note != want.Note || got.FileOffset != want.FileOffset ||
			got.Func != "" || got.Line != -1 || got.ModuleOffset.OK {
			t.Errorf("got %+v, expected %+v", got, want)
		}
	}
}

// When there are too many mappings to keep, nothing is said about the time after.
func TestTooManyMappings(t *testing.T) {
	r := newResolver(t)
	r.AddMap(&wire.Mmap{PID: 7, Time: 1000, Start: 0x1000, Len: 0x1000, Path: "/first"})
	r.mapped = maxMappings
	r.AddMap(&wire.Mmap{PID: 7, Time: 2000, Start: 0x1000, Len: 0x1000, Path: "/second"})
	if m := r.mapping(7, 0x1000, 1999); m == nil || m.path != "/first" {
		t.Errorf("before: %+v", m)
	}
	if m := r.mapping(7, 0x1000, 2000); m != nil {
		t.Errorf("after: %+v", m)
	}
}
