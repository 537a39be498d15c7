package symbol

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"xw/pkg/wire"
)

func TestResolveVDSO(t *testing.T) {
	r := NewResolver(Options{})
	defer r.Close()
	image, ok := r.readVDSO()
	if !ok {
		t.Skip("this kernel maps no vdso")
	}
	f, err := Open(bytes.NewReader(image), int64(len(image)))
	if err != nil {
		t.Fatal(err)
	}
	sym := one(t, f, "__vdso_clock_gettime")
	const at = 0x7fff12340000
	r.AddMap(&wire.Mmap{PID: 5, Start: at, Len: uint64(len(image)), Path: "[vdso]", Prot: protExec, BuildID: f.BuildID()})
	r.AddMap(&wire.Mmap{PID: 6, Start: at, Len: uint64(len(image)), Path: "[vdso]", Prot: protExec, BuildID: []byte{1}})
	got := r.Resolve(5, at+sym.Addr+2, 1)
	if !strings.HasSuffix(got.Func, "clock_gettime") || got.Offset != 2 || got.Module != "[vdso]" || got.ModuleOffset != wire.Some(sym.Addr+2) {
		t.Errorf("got %+v, expected %+v", got, sym)
	}
	got = r.Resolve(6, at+sym.Addr+2, 1)
	if got.Func != "" || got.Module != "[vdso]" || got.Note != "the vdso is another than that of this machine's kernel" {
		t.Errorf("another build id: got %+v", got)
	}
}

// The code that the file has is the code that the process runs.
func TestCode(t *testing.T) {
	path := compile(t, "live.c", liveProgram, "cc", "-O1", "-g")
	l := start(t, path, path)
	r := NewResolver(Options{Session: &l.session})
	defer r.Close()
	for i := range l.maps {
		r.AddMap(&l.maps[i])
	}
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", l.pid))
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	want := make([]byte, 16)
	if _, err := mem.ReadAt(want, int64(l.tick)); err != nil {
		t.Fatal(err)
	}
	if got, ok := r.Code(l.pid, l.tick, startNS, len(want)); !ok || !bytes.Equal(got, want) {
		t.Errorf("got %x, %v; the process has %x", got, ok, want)
	}
	if got, ok := r.Code(l.pid, 0x10, startNS, len(want)); ok {
		t.Errorf("of no mapping: got %x", got)
	}
}

func TestPerfMapOfProcess(t *testing.T) {
	path := compile(t, "live.c", liveProgram, "cc", "-O1")
	for name, c := range map[string]struct {
		spoil func(t *testing.T, path string)
		known bool
	}{
		"own": {nil, true},
		"older than the process": {func(t *testing.T, path string) {
			if err := os.Chtimes(path, time.Now(), time.Now().Add(-time.Hour)); err != nil {
				t.Fatal(err)
			}
		}, false},
		"of another user": {func(t *testing.T, path string) {
			if os.Getuid() != 0 {
				t.Skip("needs root")
			}
			if err := os.Chown(path, 65534, 65534); err != nil {
				t.Fatal(err)
			}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := start(t, path, path)
			file := fmt.Sprintf("/tmp/perf-%d.map", l.pid)
			if err := os.WriteFile(file, []byte("10000 100 Function:~hot /app/x.js:1\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			defer os.Remove(file)
			if c.spoil != nil {
				c.spoil(t, file)
			}
			r := NewResolver(Options{Session: &l.session})
			defer r.Close()
			r.AddThread(&wire.Thread{PID: l.pid, TID: l.pid, Birth: l.birth})
			r.AddMap(&wire.Mmap{PID: l.pid, Time: startNS, Start: 0x10000, Len: 0x1000, Path: "//anon", Prot: protExec})
			got := r.Resolve(l.pid, 0x10020, startNS+1)
			if want := "Function:~hot /app/x.js:1"; c.known != (got.Func == want) || got.JIT != c.known {
				t.Errorf("got %+v, expected the name: %v", got, c.known)
			}
		})
	}
}

// A program in a mount namespace of its own finds its debug file there.
func TestResolveOtherNamespace(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root for a mount namespace")
	}
	path := compile(t, "live.c", liveProgram, "cc", "-O1", "-g", "-Wl,--build-id=0x1234")
	addr := nm(t, path)["tick"]
	run(t, filepath.Dir(path), "objcopy", "--only-keep-debug", path, path+".debug")
	run(t, filepath.Dir(path), "strip", path)
	script := fmt.Sprintf("mount -t tmpfs none /mnt && mkdir -p /mnt/bin /mnt/bin/.debug && mv %s /mnt/bin/prog && "+
		"mv %s.debug /mnt/bin/.debug/prog.debug && objcopy --add-gnu-debuglink=/mnt/bin/.debug/prog.debug /mnt/bin/prog && exec /mnt/bin/prog",
		path, path)
	l := startAt(t, "/mnt/bin/prog", addr, "unshare", "-m", "sh", "-c", script)
	l.record([]byte{0x12, 0x34})
	if got := l.resolve(t, Options{}); !l.known(got) || got.Note != "" {
		t.Errorf("got %+v", got)
	}
}

func TestRunningKernel(t *testing.T) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("/proc/kallsyms")
	if err != nil {
		t.Skip(err)
	}
	r := NewResolver(Options{Session: &wire.Session{BootID: strings.TrimSpace(string(boot))}})
	checked := 0
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		addr, err := strconv.ParseUint(fields[0], 16, 64)
		if err != nil || addr == 0 || len(fields) != 3 || fields[1] != "T" || checked > 2000 {
			continue
		}
		got := r.Resolve(1, addr, 1)
		if got.Func == "" { // not in the kernel's own text
			continue
		}
		checked++
		if again := r.Resolve(1, addr+1, 1); got.Offset != 0 || got.Module != "[kernel]" || again.Func != got.Func && again.Offset != 0 {
			t.Errorf("%s: got %+v and %+v", line, got, again)
		}
	}
	if checked == 0 {
		t.Skip("kernel addresses are hidden from this user")
	}
}
