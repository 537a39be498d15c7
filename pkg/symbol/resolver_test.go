package symbol

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"xw/pkg/wire"
)

const liveProgram = `
#include <stdio.h>
int counter;
int __attribute__((noinline)) tick(int n) {
	return counter += n;
}
int main(void) {
	puts("ready");
	fflush(stdout);
	getchar();
	return tick(3);
}
`

// live is a running program and what a capture of it recorded.
type live struct {
	path    string
	pid     uint32
	session wire.Session
	maps    []wire.Mmap
	birth   uint64
	tick    uint64 // address of tick in the process
	addr    uint64 // and in the file
	kill    func()
}

const startNS = 1000 * 1000_000_000

// start runs a program and records its mappings; module is the file of it that has tick.
func start(t *testing.T, prog, module string) *live {
	t.Helper()
	return startAt(t, module, nm(t, module)["tick"], prog)
}

// startAt runs a command; tick is at an ELF address of a module.
func startAt(t *testing.T, module string, addr uint64, command string, args ...string) *live {
	t.Helper()
	cmd := exec.Command(command, args...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	born := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := func() {
		stdin.Close()
		_ = cmd.Wait() // the program's status is that of tick
	}
	t.Cleanup(kill)
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	l := &live{path: module, pid: uint32(cmd.Process.Pid), birth: startNS - uint64(now.Sub(born)), kill: kill,
		session: wire.Session{BootID: strings.TrimSpace(string(boot)), StartNS: startNS, RealtimeNS: uint64(now.UnixNano())}}
	l.session.Target.PID = uint64(l.pid)
	l.addr = addr
	l.readMaps(t)
	return l
}

func (l *live) readMaps(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", l.pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		from, to, _ := strings.Cut(fields[0], "-")
		m := wire.Mmap{PID: l.pid, Time: startNS}
		m.Start, _ = strconv.ParseUint(from, 16, 64)
		end, _ := strconv.ParseUint(to, 16, 64)
		m.Len = end - m.Start
		m.Offset, _ = strconv.ParseUint(fields[2], 16, 64)
		for i, c := range "rwx" {
			if rune(fields[1][i]) == c {
				m.Prot |= 1 << i
			}
		}
		if len(fields) > 5 {
			m.Path = strings.Join(fields[5:], " ")
		}
		if m.Path == l.path && m.Prot&protExec != 0 {
			bias, err := open(t, fmt.Sprintf("/proc/%d/root%s", l.pid, l.path)).LoadBiasProt(m.Start, m.Offset, m.Prot)
			if err != nil {
				t.Fatal(err)
			}
			l.tick = bias + l.addr
		}
		l.maps = append(l.maps, m)
	}
	if l.tick == 0 {
		t.Fatalf("%s is not mapped:\n%s", l.path, text)
	}
}

// resolve resolves tick+4 as a report on the capture would.
func (l *live) resolve(t *testing.T, opts Options) Frame {
	t.Helper()
	opts.Session = &l.session
	r := NewResolver(opts)
	t.Cleanup(r.Close)
	for i := range l.maps {
		r.AddMap(&l.maps[i])
	}
	if l.birth != 0 {
		r.AddThread(&wire.Thread{PID: l.pid, TID: l.pid, Birth: l.birth})
	}
	return r.Resolve(l.pid, l.tick+4, startNS+1)
}

func (l *live) record(id []byte) {
	for i := range l.maps {
		if strings.HasPrefix(l.maps[i].Path, "/") {
			l.maps[i].BuildID = id
		}
	}
}

func (l *live) known(f Frame) bool {
	return f.Func == "tick" && f.Offset == 4 && filepath.Base(f.File) == "live.c" && f.Line == 5 &&
		f.ModuleOffset == wire.Some(l.addr+4)
}

// replace puts another program in the place of the file, as a rebuild does: by renaming.
func (l *live) replace(t *testing.T) {
	t.Helper()
	other := compile(t, "live.c", "int main(void) { return 0; }"+liveProgram[strings.Index(liveProgram, "\nint counter"):strings.Index(liveProgram, "int main")],
		"cc", "-O2", "-g", "-Wl,--build-id=0x9999")
	if err := os.Rename(other, l.path); err != nil {
		t.Fatal(err)
	}
}

func (l *live) remove(t *testing.T) {
	t.Helper()
	if err := os.Remove(l.path); err != nil {
		t.Fatal(err)
	}
}

func (l *live) end(*testing.T) { l.kill() }

// otherMachine makes the capture one of another machine.
func (l *live) otherMachine(*testing.T) { l.session.BootID = "another" }

// forget makes the capture one without the process's birth.
func (l *live) forget(*testing.T) { l.birth = 0 }

func TestResolveLive(t *testing.T) {
	id := []byte{0x12, 0x34, 0x56}
	type step = func(*live, *testing.T)
	for name, c := range map[string]struct {
		id    []byte // recorded; every program here has 123456
		steps []step
		known bool
		note  string // that of the frame must contain this
	}{
		"in place":                        {id, nil, true, ""},
		"in place, ended":                 {id, []step{(*live).end}, true, ""},
		"replaced":                        {id, []step{(*live).replace}, true, ""},
		"replaced, ended":                 {id, []step{(*live).replace, (*live).end}, false, "another build id"},
		"removed":                         {id, []step{(*live).remove}, true, ""},
		"removed, ended":                  {id, []step{(*live).remove, (*live).end}, false, "not found"},
		"another recorded":                {[]byte{1}, nil, false, "another build id"},
		"other machine":                   {id, []step{(*live).otherMachine}, true, ""},
		"other machine, replaced":         {id, []step{(*live).replace, (*live).otherMachine}, false, "another build id"},
		"no id":                           {nil, nil, true, ""},
		"no id, ended":                    {nil, []step{(*live).end}, true, ""},
		"no id, replaced":                 {nil, []step{(*live).replace}, true, ""},
		"no id, removed":                  {nil, []step{(*live).remove}, true, ""},
		"no id, replaced, ended":          {nil, []step{(*live).replace, (*live).end}, false, "may have been replaced"},
		"no id, ended, birth not known":   {nil, []step{(*live).end, (*live).forget}, false, "may have been replaced"},
		"no id, other machine, same path": {nil, []step{(*live).otherMachine}, false, "another machine"},
	} {
		t.Run(name, func(t *testing.T) {
			path := compile(t, "live.c", liveProgram, "cc", "-O1", "-g", "-Wl,--build-id=0x123456")
			time.Sleep(20 * time.Millisecond) // births are known to the clock tick
			l := start(t, path, path)
			l.record(c.id)
			for _, s := range c.steps {
				s(l, t)
			}
			got := l.resolve(t, Options{})
			if l.known(got) != c.known || !strings.Contains(got.Note, c.note) || c.known && got.Note != "" {
				t.Errorf("got %+v, expected names: %v, note %q", got, c.known, c.note)
			}
			if got.Module != "prog" || got.Path != l.path || !got.FileOffset.OK || !c.known && (got.Func != "" || got.ModuleOffset.OK) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestResolveSymFS(t *testing.T) {
	for name, c := range map[string]struct {
		id    []byte
		below string // where the file is below the directory; "" is under its own path
		known bool
		note  string
	}{
		"own path":         {[]byte{0x12, 0x34}, "", true, ""},
		"base name":        {[]byte{0x12, 0x34}, "prog", true, ""},
		"another build":    {[]byte{0x12, 0x35}, "", false, "another build id"},
		"no id recorded":   {nil, "", true, "no build id was recorded"},
		"not there":        {[]byte{0x12, 0x34}, "elsewhere/prog", false, "not found below"},
		"not there, no id": {nil, "elsewhere/prog", false, "not found below"},
	} {
		t.Run(name, func(t *testing.T) {
			path := compile(t, "live.c", liveProgram, "cc", "-O1", "-g", "-Wl,--build-id=0x1234")
			l := start(t, path, path)
			l.record(c.id)
			l.session.BootID = "another"
			dir := t.TempDir()
			below := c.below
			if below == "" {
				below = l.path
			}
			to := filepath.Join(dir, below)
			if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(l.path, to); err != nil {
				t.Fatal(err)
			}
			got := l.resolve(t, Options{SymFS: dir})
			if l.known(got) != c.known || !strings.Contains(got.Note, c.note) || c.note == "" && got.Note != "" {
				t.Errorf("got %+v, expected names: %v, note %q", got, c.known, c.note)
			}
		})
	}
}

// A library that is gone is still there for the process that has it mapped.
func TestResolveRemovedLibrary(t *testing.T) {
	needELF(t)
	if os.Getuid() != 0 {
		t.Skip("needs root for /proc/PID/map_files")
	}
	dir := t.TempDir()
	write(t, dir, "live.c", "\n\nint counter;\nint __attribute__((noinline)) tick(int n) {\n\treturn counter += n;\n}\n")
	write(t, dir, "main.c", "int tick(int);\n"+liveProgram[strings.Index(liveProgram, "int main"):])
	run(t, dir, "cc", "-shared", "-fPIC", "-O1", "-g", "-Wl,--build-id=none", "-o", "lib.so", "live.c")
	run(t, dir, "cc", "-include", "stdio.h", "-o", "prog", "main.c", "./lib.so")
	lib := filepath.Join(dir, "lib.so")
	t.Chdir(dir)
	l := start(t, filepath.Join(dir, "prog"), lib)
	if err := os.Remove(lib); err != nil {
		t.Fatal(err)
	}
	if got := l.resolve(t, Options{}); !l.known(got) || got.Module != "lib.so" || got.Note != "" {
		t.Errorf("got %+v", got)
	}
	l.kill()
	if got := l.resolve(t, Options{}); got.Func != "" || got.Module != "lib.so" {
		t.Errorf("after the end: got %+v", got)
	}
}
