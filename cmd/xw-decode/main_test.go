package main

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"

	"xw/pkg/wire"
)

const dir = "../../testdata/"

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(dir + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestRun runs the command. What it writes as text is in testdata/events.
func TestRun(t *testing.T) {
	raw := read(t, "raw/hits.txt")
	for _, tt := range []struct {
		name   string
		args   []string
		stdin  []byte
		code   int
		stdout string // file of testdata, "" for nothing
		stderr string
	}{
		{"whole", []string{"--text"}, raw, 0, "events/hits.txt", ""},
		{"malformed records are data", []string{"--text"}, read(t, "raw/broken.txt"), 0, "events/broken.txt", ""},
		{"truncated", []string{"--text"}, read(t, "raw/truncated.txt"), 1, "events/truncated.txt",
			"xw-decode: read stream: truncated stream: no end record\n"},
		{"refused records", []string{"--text"}, read(t, "raw/refused.txt"), 1, "events/refused.txt",
			"xw-decode: decode: source record: ids of 2 bytes, no multiple of 8\n"},
		{"decoded before", nil, read(t, "events/hits.txt"), 1, "",
			"xw-decode: decode: the input is the stream \"events\", expected \"raw\"\n"},
		{"empty", nil, nil, 1, "", "xw-decode: read stream: truncated stream: the input is empty\n"},
		{"no stream", nil, []byte("\x7fELF"), 1, "", "xw-decode: read stream: record at byte 0: " +
			"this is no xw stream: expected an array that begins with a kind, found an unsigned integer\n"},
		{"argument", []string{"FILE"}, raw, 2, "", "xw-decode: unexpected argument FILE\nhint: xw-decode < FILE\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := run(tt.args, bytes.NewReader(tt.stdin), &stdout, &stderr)
			if code != tt.code || stderr.String() != tt.stderr {
				t.Errorf("exit %d, messages %q; want %d, %q", code, &stderr, tt.code, tt.stderr)
			}
			var want []byte
			if tt.stdout != "" {
				want = read(t, tt.stdout)
			}
			if !bytes.Equal(stdout.Bytes(), want) {
				t.Errorf("stdout:\n%s\nwant:\n%s", &stdout, want)
			}
		})
	}
}

// TestBinaryByDefault compares the binary form with the text.
func TestBinaryByDefault(t *testing.T) {
	var stdout, stderr, text bytes.Buffer
	if code := run(nil, bytes.NewReader(read(t, "raw/tasks.txt")), &stdout, &stderr); code != 0 || stderr.Len() != 0 {
		t.Fatalf("exit %d, messages %q", code, &stderr)
	}
	r, w := wire.NewReader(&stdout), wire.NewTextWriter(&text)
	for r.Next() {
		if err := w.WriteRaw(r.Raw()); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil || r.Err() != nil {
		t.Fatal(err, r.Err())
	}
	if want := read(t, "events/tasks.txt"); !bytes.Equal(text.Bytes(), want) {
		t.Errorf("got:\n%s\nwant:\n%s", &text, want)
	}
}

// TestClosedDownstream ends quietly, though the input does not.
func TestClosedDownstream(t *testing.T) {
	in, feed := io.Pipe()
	out, stdout := io.Pipe()
	out.Close()
	go feed.Write(read(t, "raw/hits.txt"))
	defer feed.Close()
	var stderr strings.Builder
	if code := run(nil, in, stdout, &stderr); code != 0 || stderr.Len() != 0 {
		t.Errorf("exit %d, messages %q", code, &stderr)
	}
}
