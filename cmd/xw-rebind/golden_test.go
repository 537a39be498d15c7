package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"xw/pkg/golden"
	"xw/pkg/wire"
)

// TestGolden runs testdata/NAME.events, with NAME.mem where there is one, and compares with NAME.want: the exit code, the
// messages, the commands that came out of the FIFO, and the stream.
func TestGolden(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*.events")
	if err != nil || len(inputs) == 0 {
		t.Fatalf("no inputs: %v", err)
	}
	for _, input := range inputs {
		base := strings.TrimSuffix(input, ".events")
		t.Run(filepath.Base(base), func(t *testing.T) {
			stream, err := os.ReadFile(input)
			if err != nil {
				t.Fatal(err)
			}
			r := newReader(t)
			args := []string{"--text", "--control", r.path}
			if _, err := os.Stat(base + ".mem"); err == nil {
				args = append(args, "--mem", base+".mem")
			}
			var stdout, stderr bytes.Buffer
			code := run(args, bytes.NewReader(stream), &stdout, &stderr)
			got := fmt.Sprintf("exit %d\n\n# messages\n%s\n# control\n%s\n# events\n%s", code, &stderr, r.commands(t), &stdout)
			golden.Check(t, []byte(got), base+".want")
		})
	}
}

// reader is the reading end of a FIFO.
type reader struct {
	path string
	fd   int
}

func newReader(t *testing.T) *reader {
	t.Helper()
	r := &reader{path: filepath.Join(t.TempDir(), "ctl")}
	if err := syscall.Mkfifo(r.path, 0o600); err != nil {
		t.Fatal(err)
	}
	r.open(t)
	return r
}

func (r *reader) open(t *testing.T) {
	t.Helper()
	var err error
	if r.fd, err = syscall.Open(r.path, syscall.O_RDONLY|syscall.O_NONBLOCK, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.close)
}

func (r *reader) close() {
	if r.fd >= 0 {
		syscall.Close(r.fd)
		r.fd = -1
	}
}

// bytes returns what is in the FIFO.
func (r *reader) bytes(t *testing.T) []byte {
	t.Helper()
	var all []byte
	buf := make([]byte, 64<<10)
	for {
		n, err := ignoringEINTR(func() (int, error) { return syscall.Read(r.fd, buf) })
		if err != nil && err != syscall.EAGAIN {
			t.Fatal(err)
		}
		if n <= 0 {
			return all
		}
		all = append(all, buf[:n]...)
	}
}

// commands returns what is in the FIFO as text, without the header, which must come first if there is anything.
func (r *reader) commands(t *testing.T) string {
	t.Helper()
	var out bytes.Buffer
	text := wire.NewTextWriter(&out)
	in := wire.NewReader(bytes.NewReader(r.bytes(t)))
	for first := true; in.Next(); first = false {
		if first {
			if h := in.Record().(*wire.Header); h.Stream != wire.Control {
				t.Errorf("the FIFO carries a stream of the kind %q", h.Stream)
			}
			continue
		}
		if err := text.WriteRaw(in.Raw()); err != nil {
			t.Fatal(err)
		}
	}
	if err := text.Flush(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
