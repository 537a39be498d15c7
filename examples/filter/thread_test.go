package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"xw/pkg/wire"
)

// The tests of this file are those of the filter in Python, examples/thread.py.

// python returns an interpreter that has msgpack.
func python(t *testing.T) string {
	t.Helper()
	var last error
	for _, name := range []string{"/usr/bin/python3", "python3"} {
		if last = exec.Command(name, "-c", "import msgpack").Run(); last == nil {
			return name
		}
	}
	if os.Getenv("XW_REQUIRE_HW") == "1" {
		t.Fatalf("no python3 with msgpack (Debian package python3-msgpack): %v", last)
	}
	t.Skipf("no python3 with msgpack (Debian package python3-msgpack): %v", last)
	return ""
}

func threadFilter(t *testing.T, args ...string) (cmd *exec.Cmd, stderr *bytes.Buffer) {
	t.Helper()
	cmd = exec.Command(python(t), append([]string{"../thread.py"}, args...)...)
	stderr = new(bytes.Buffer)
	cmd.Stderr = stderr
	return cmd, stderr
}

// runThread returns what the filter makes of a stream, its messages, and its exit status.
func runThread(t *testing.T, stream []byte, args ...string) (out []byte, messages string, status int) {
	t.Helper()
	cmd, stderr := threadFilter(t, args...)
	cmd.Stdin = bytes.NewReader(stream)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out, stderr.String(), cmd.ProcessState.ExitCode()
}

const threadNote = `note time=50 text="only samples of thread 9 were kept"` + "\n"

func TestThread(t *testing.T) {
	in := head + hit(100, 8, 0, 64, "1") + hit(110, 9, 0, 64, "2") + hit(120, 9, 0, 64, "nil") + hit(130, 7, 0, 64, "9") + tail
	out, messages, status := runThread(t, binary(t, in), "9")
	if status != 0 || messages != "" {
		t.Fatalf("status %d: %s", status, messages)
	}
	if got, want := text(t, out), text(t, binary(t, header+threadNote+comm+hit(110, 9, 0, 64, "2")+hit(120, 9, 0, 64, "nil")+tail)); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

// TestThreadReadsSampleFields gives names in another order than the present one.
func TestThreadReadsSampleFields(t *testing.T) {
	moved := strings.Replace(head, `"pid","tid"`, `"tid","pid"`, 1)
	in := moved + hit(100, 9, 0, 64, "1") + tail // its pid, 7, is where the header says that the tid is
	for tid, samples := range map[string]int{"7": 1, "9": 0} {
		out, messages, status := runThread(t, binary(t, in), tid)
		if status != 0 || strings.Count(text(t, out), "\nsample ") != samples {
			t.Errorf("thread %s: status %d, %s\n%s", tid, status, messages, text(t, out))
		}
	}
}

func TestThreadKeepsTheBytes(t *testing.T) {
	stream := later(t, binary(t, head+hit(100, 9, 0, 64, "1")))
	sample := stream[len(binary(t, head)):]
	stream = append(stream, bytes.Repeat(sample, 3000)...) // more than one block of input
	out, messages, status := runThread(t, stream, "9")
	if status != 1 || !strings.Contains(messages, "truncated") {
		t.Errorf("without an end: status %d, %q", status, messages)
	}
	if want := append(binary(t, header+threadNote), stream[len(binary(t, header)):]...); !bytes.Equal(out, want) {
		t.Errorf("%d bytes became %d, want %d", len(stream), len(out), len(want))
	}
}

func TestThreadBadInput(t *testing.T) {
	good := binary(t, head+hit(100, 9, 0, 64, "1"))
	for name, test := range map[string]struct {
		stream []byte
		want   string
		passed int
	}{
		"empty":      {nil, "truncated", 0},
		"raw":        {binary(t, `xw version=1 stream="raw" session={}`+"\n"), "no events stream", 0},
		"prose":      {[]byte("hello world"), "no stream", 0},
		"cut":        {append(bytes.Clone(good), "\x9f\xa6sam"...), "truncated", 1},
		"corrupt":    {append(bytes.Clone(good), 0xc1), "no longer one", 1},
		"no array":   {append(bytes.Clone(good), 7), "no longer one", 1},
		"huge":       {append(bytes.Clone(good), 0x91, 0xdb, 0xff, 0xff, 0xff, 0xff), "truncated", 1},
		"too long":   {append(append(bytes.Clone(good), 0x91, 0xdb, 0xff, 0xff, 0xff, 0xff), make([]byte, 4<<20)...), "no longer one", 1},
		"huge array": {append(bytes.Clone(good), 0xdd, 0xff, 0xff, 0xff, 0xff), "no longer one", 1},
		"no fields":  {binary(t, strings.Replace(head, "\"tid\"", "\"t\"", 1)), "no longer one", 0},
	} {
		out, messages, status := runThread(t, test.stream, "9")
		if status != 1 || !strings.HasPrefix(messages, "thread.py: ") || !strings.Contains(messages, test.want) {
			t.Errorf("%s: status %d, %q, want %q", name, status, messages, test.want)
		}
		if got := bytes.Count(out, []byte("\xa6sample")); got != test.passed {
			t.Errorf("%s: %d samples passed, want %d", name, got, test.passed)
		}
	}
	for _, args := range [][]string{nil, {"x"}, {"1", "2"}} {
		if _, messages, status := runThread(t, nil, args...); status != 2 || !strings.Contains(messages, "usage") {
			t.Errorf("%q: status %d, %q", args, status, messages)
		}
	}
}

// TestThreadInAPipe gives one sample and waits for it, ends the reading side, and expects a quiet exit.
func TestThreadInAPipe(t *testing.T) {
	cmd, stderr := threadFilter(t, "9")
	feed, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	if _, err := feed.Write(binary(t, head+hit(100, 9, 0, 64, "1"))); err != nil {
		t.Fatal(err)
	}
	r := wire.NewReader(out)
	for r.Next() {
		if _, ok := r.Record().(*wire.Sample); ok {
			break
		}
	}
	if r.Err() != nil {
		t.Fatal(r.Err())
	}
	out.Close()
	if _, err := feed.Write(after(t, hit(100, 9, 0, 64, "1"))); err != nil {
		t.Fatal(err)
	}
	feed.Close()
	if err := cmd.Wait(); err != nil || stderr.Len() > 0 {
		t.Errorf("closed downstream: %v, %s", err, stderr)
	}
}
