//go:build amd64

package e2e

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"xw/pkg/hwtest"
)

// TestPython watches an integer that a Python loop sets, and errno while Python starts programs, for which it uses vfork:
// perf counts the same.
func TestPython(t *testing.T) {
	eachMode(t, func(t *testing.T, m mode) {
		hwtest.RequireTool(t, "python3")
		const script = `
import ctypes, subprocess, sys
libc = ctypes.CDLL(None)
libc.__errno_location.restype = ctypes.c_void_p
number = ctypes.c_long(0)
print("ready number=%#x errno=%#x" % (ctypes.addressof(number), libc.__errno_location()), flush=True)
for line in sys.stdin:
    for i in range(2000):
        number.value = i + 1
    for i in range(10):
        subprocess.run(["true"], close_fds=False)
    print("done", flush=True)
`
		target := hwtest.StartCmd(t, exec.Command("python3", "-c", script))
		errno := target.Uint("errno")
		asleep(t, target.PID)
		s := attach(t, target.PID, append(m.args, "--watch", fmt.Sprintf("%#x:8", target.Uint("number")), "--watch", fmt.Sprintf("%#x:4", errno))...)
		c := count(t, target.PID, errno, 4, "w")
		target.Send("")
		target.Line()
		asleep(t, target.PID)
		want := c.stop()
		seen := s.stop()
		seen.wantHits(0, 2000)
		if !m.bpf() {
			// Their children share the memory until they execute their programs.
			if own := seen.Watches[1].Hits; own == 0 || own > want || seen.gapsOf("unwatched_task") == 0 {
				t.Errorf("errno: %d hits, perf counted %d, gaps %v", own, want, seen.Gaps)
			}
			return
		}
		seen.wantHits(1, want)
		seen.wantComplete()
		seen.wantSequence(0, 1)
		t.Logf("errno: %d hits", want)
	})
}

// TestBash watches a variable of bash while it runs subshells, which have copies of it: perf counts the same when it does
// not follow them.
func TestBash(t *testing.T) {
	eachMode(t, func(t *testing.T, m mode) {
		hwtest.RequireTool(t, "bash")
		target := hwtest.StartCmd(t, exec.Command("bash", "-c", `echo ready; while read -r line; do eval "$line"; echo done; done`))
		asleep(t, target.PID)
		s := attach(t, target.PID, append(m.args, "--watch", "last_command_exit_value")...)
		addr, err := strconv.ParseUint(first(t, s).Addr, 0, 64)
		if err != nil {
			t.Fatal(err)
		}
		c := count(t, target.PID, addr, 4, "w", "--no-inherit")
		target.Send("for i in 1 2 3 4 5 6 7 8 9 10; do (false; exit $i); x=$(true); [ $i = 5 ]; done")
		target.Line()
		asleep(t, target.PID)
		want := c.stop()
		seen := s.stop()
		seen.wantHits(0, want)
		if want < 40 {
			t.Errorf("perf counted only %d", want)
		}
		if m.bpf() {
			seen.wantComplete()
		}
		if m.name == "inherit" && seen.Watches[0].Foreign == 0 {
			t.Error("the subshells' own writes were not seen as others'")
		}
	})
}

// asleep waits until a process waits for something: one that has answered still writes its variables, and errno, until it
// reads the next line.
func asleep(t *testing.T, pid int) {
	t.Helper()
	for range 30_000 {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		if _, rest, _ := strings.Cut(string(b), ") "); strings.HasPrefix(rest, "S ") {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("process %d does not come to rest", pid)
}

// first reads the first watch of a session that goes on, from the head of its stream.
func first(t *testing.T, s *session) watchReport {
	t.Helper()
	for end := time.Now().Add(hangs); ; time.Sleep(10 * time.Millisecond) {
		out, err := exec.Command("sh", "-c", "head -c 65536 "+s.raw+" | xw-decode 2>/dev/null | xw-report --format json").Output()
		if len(out) > 0 {
			return parse(t, out).Watches[0]
		}
		if time.Now().After(end) {
			t.Fatalf("read the head of a stream: %v", err)
		}
	}
}

// TestGoProgram watches a variable of a Go program: many threads, signals of the scheduler all the time.
func TestGoProgram(t *testing.T) {
	const source = `package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
)

var counter atomic.Int64

func main() {
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var all sync.WaitGroup
		for i := range 50 {
			all.Add(1)
			go func() {
				defer all.Done()
				if i%5 == 0 {
					runtime.LockOSThread() // and ends with the thread locked: the thread ends too
				}
				for range 200 {
					counter.Add(1)
				}
			}()
		}
		all.Wait()
		runtime.GC()
		fmt.Println("done")
	}
}
`
	eachMode(t, func(t *testing.T, m mode) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o666); err != nil {
			t.Fatal(err)
		}
		build := exec.Command("go", "build", "-o", "prog", "main.go")
		build.Dir = dir
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build: %v\n%s", err, out)
		}
		target := hwtest.StartCmd(t, exec.Command(filepath.Join(dir, "prog")))
		s := attach(t, target.PID, append(m.args, "--watch", "main.counter:8")...)
		target.Send("")
		target.Line()
		seen := s.stop()
		seen.wantHits(0, 50*200)
		seen.wantComplete()
	})
}

// Test32Bit watches a 32-bit program.
func Test32Bit(t *testing.T) {
	hwtest.RequireC(t, "-m32")
	eachMode(t, func(t *testing.T, m mode) {
		a := startActor(t, "-m32")
		s := attach(t, a.PID, append(m.args, "--watch", "counter", "--watch", "range:8")...)
		a.do("store", 1000)
		a.do("oneshot", 100)
		a.do("live", 20)
		a.do("fire")
		a.do("vfork", 5, 1)
		a.do("word", 0, 7)
		seen := s.stop()
		if m.bpf() {
			seen.wantHits(0, 1125)
			seen.wantComplete()
			seen.wantSequence(0, 1)
		} else {
			seen.wantHits(0, 1120)
		}
		seen.wantHits(1, 7)
	})
}

// TestSQLite watches the number of changes of a connection, on the heap: each statement that inserts rows adds to it once.
func TestSQLite(t *testing.T) {
	eachMode(t, func(t *testing.T, m mode) {
		hwtest.RequireTool(t, "sqlite3")
		target := hwtest.StartCmd(t, exec.Command("sqlite3", "-batch", "-cmd", ".print ready", ":memory:"))
		rows := 0
		insert := func(n int) {
			rows += n
			target.Send(fmt.Sprintf("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < %d) INSERT INTO t SELECT i FROM n;", n))
		}
		settle := func() uint64 {
			target.Send("SELECT total_changes();")
			n, err := strconv.ParseUint(target.Line(), 10, 64)
			if err != nil || n != uint64(rows) {
				t.Fatalf("%d changes, want %d: %v", n, rows, err)
			}
			return n
		}
		target.Send("CREATE TABLE t(x);")
		addr := find(t, target.PID, func(m mapping) bool { return m.path == "[heap]" }, func() uint64 {
			insert(7919)
			return settle()
		})
		s := attach(t, target.PID, append(m.args, "--watch", fmt.Sprintf("%#x:8", addr))...)
		c := count(t, target.PID, addr, 8, "w")
		for range 300 {
			insert(1)
		}
		settle()
		want := c.stop()
		seen := s.stop()
		seen.wantHits(0, want)
		seen.wantComplete()
		if want != 300 {
			t.Errorf("300 statements, perf counted %d", want)
		}
		if m.bpf() {
			seen.wantSequence(0, uint64(rows)-299)
		}
	})
}

// mapping is a line of a process's maps.
type mapping struct {
	start, end uint64
	perm, path string
}

func mappings(t *testing.T, pid int) (list []mapping) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var m mapping
		f := strings.Fields(line)
		if _, err := fmt.Sscanf(f[0], "%x-%x", &m.start, &m.end); err != nil {
			t.Fatal(err)
		}
		m.perm = f[1]
		if len(f) > 5 {
			m.path = f[5]
		}
		list = append(list, m)
	}
	return list
}

// find finds an aligned word that has, each time after change, the value that change returns. Few others follow a number
// through several changes.
func find(t *testing.T, pid int, where func(mapping) bool, change func() uint64) uint64 {
	t.Helper()
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	var found []uint64
	for round := range 4 {
		value := change()
		if round > 0 {
			found = slices.DeleteFunc(found, func(addr uint64) bool {
				var b [8]byte
				_, err := mem.ReadAt(b[:], int64(addr))
				return err != nil || binary.LittleEndian.Uint64(b[:]) != value
			})
			continue
		}
		for _, m := range mappings(t, pid) {
			if m.perm[:2] != "rw" || !where(m) {
				continue
			}
			b := make([]byte, m.end-m.start)
			n, _ := mem.ReadAt(b, int64(m.start)) // what cannot be read is not it
			for at := 0; at+8 <= n; at += 8 {
				if binary.LittleEndian.Uint64(b[at:]) == value {
					found = append(found, m.start+uint64(at))
				}
			}
		}
	}
	if len(found) == 0 {
		t.Fatal("no word follows the number")
	}
	return found[0]
}
