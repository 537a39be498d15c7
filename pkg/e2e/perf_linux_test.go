//go:build amd64

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"xw/pkg/hwtest"
)

// counter is a perf stat that counts the accesses to a word of a process beside xw-open. It follows the process's
// threads and, other than xw, its forked children.
type counter struct {
	t   testing.TB
	cmd *exec.Cmd
	out string
}

// count starts to count and returns when that works; args are further arguments of perf stat.
func count(t testing.TB, pid int, addr uint64, size int, access string, args ...string) *counter {
	t.Helper()
	hwtest.RequireTool(t, "perf")
	c := &counter{t: t, out: filepath.Join(t.TempDir(), "count")}
	ctl, ack := c.fifo("ctl"), c.fifo("ack")
	args = append(args, "-x", ",", "-o", c.out, "-D", "-1", "--control", "fifo:"+ctl.Name()+","+ack.Name(),
		"-e", fmt.Sprintf("mem:%#x/%d:%s", addr, size, access), "-p", strconv.Itoa(pid))
	c.cmd = exec.Command("perf", append([]string{"stat"}, args...)...)
	var errs bytes.Buffer
	c.cmd.Stderr = &errs
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	guard := time.AfterFunc(hangs, func() { c.cmd.Process.Kill() })
	t.Cleanup(func() {
		guard.Stop()
		if c.cmd.ProcessState == nil {
			c.cmd.Process.Kill()
			c.cmd.Wait()
		}
	})
	if _, err := ctl.WriteString("enable\n"); err != nil {
		t.Fatal(err)
	}
	var answer [5]byte
	ack.SetReadDeadline(time.Now().Add(hangs))
	if _, err := ack.Read(answer[:]); err != nil {
		t.Fatalf("perf stat does not answer: %v\n%s", err, &errs)
	}
	return c
}

// fifo makes a FIFO and opens both of its ends, so that opening does not wait.
func (c *counter) fifo(name string) *os.File {
	c.t.Helper()
	path := filepath.Join(c.t.TempDir(), name)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		c.t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { f.Close() })
	return f
}

// stop ends it and returns the count.
func (c *counter) stop() uint64 {
	c.t.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGINT); err != nil {
		c.t.Fatal(err)
	}
	c.cmd.Wait() // its status says that it was interrupted
	b, err := os.ReadFile(c.out)
	if err != nil {
		c.t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if field, _, ok := strings.Cut(line, ","); ok {
			n, err := strconv.ParseUint(field, 10, 64)
			if err != nil {
				c.t.Fatalf("perf stat printed %q", line)
			}
			return n
		}
	}
	c.t.Fatalf("perf stat printed no count:\n%s", b)
	return 0
}

// poke writes a word of another process.
func poke(t testing.TB, pid int, addr, value uint64) {
	t.Helper()
	f, err := os.OpenFile("/proc/"+strconv.Itoa(pid)+"/mem", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [8]byte
	for i := range b {
		b[i] = byte(value >> (8 * i))
	}
	if _, err := f.WriteAt(b[:], int64(addr)); err != nil {
		t.Fatal(err)
	}
}
