package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"xw/pkg/golden"
	"xw/pkg/report"
)

const parts = "testdata/parts/"

// TestFiles adds streams up, whatever the order of their names on the command line.
func TestFiles(t *testing.T) {
	for _, test := range []struct {
		name  string
		files string
		code  int
	}{
		{name: "whole", files: "3 1 2"},
		{name: "middle-missing", files: "1 3"},
		{name: "end-missing", files: "2"},
		{name: "two-sessions", files: "later 1 2 3"},
		{name: "cut", files: "cut 2 3", code: 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, format := range []string{"text", "json"} {
				args := []string{"--format", format}
				for _, f := range strings.Fields(test.files) {
					args = append(args, parts+f+".txt")
				}
				code, stdout, stderr := xwReport("", args...)
				if code != test.code || (code == 0) != (stderr == "") {
					t.Errorf("exit %d, %s", code, stderr)
				}
				golden.Check(t, []byte(stdout), parts+test.name+"."+format)
			}
		})
	}
}

// TestFilesApart: what cannot be added up is refused with the reason, and nothing is printed.
func TestFilesApart(t *testing.T) {
	for _, test := range []struct{ files, stderr string }{
		{"1 other-pid", `add up "testdata/parts/1.txt" and "testdata/parts/other-pid.txt": one is of process 7, one of 9`},
		{"1 2 3 again", "the process id 7 was used again: these are two processes"},
		{"1 chain", `watch 0 is "counter" (sample!counter at 0x601040, 8 bytes, w, plain) in one and`},
		{"chain chain", "begins 1.00 s before the stream before it has ended"},
		{"1 1", `"testdata/parts/1.txt": add up streams: it begins 2.00 s before the stream before it has ended`},
		{"raw", "this is a stream of \"raw\" and not of \"events\"\nhint: xw-decode < testdata/parts/raw.txt | xw-report"},
		{"1 raw", "hint: xw-decode < testdata/parts/raw.txt | xw-report"},
		{"1 none", "xw-report: read stream: open testdata/parts/none.txt: no such file or directory"},
		{"..", `read testdata/parts`},
	} {
		var args []string
		for _, f := range strings.Fields(test.files) {
			if f == ".." {
				args = append(args, "testdata/parts")
				continue
			}
			args = append(args, parts+f+".txt")
		}
		code, stdout, stderr := xwReport("", args...)
		if code != 1 || stdout != "" || !strings.Contains(stderr, test.stderr) {
			t.Errorf("%s: exit %d, stdout %q, stderr %q, want %q", test.files, code, stdout, stderr, test.stderr)
		}
	}
}

// TestFilesAsJSONLines prints one after the other.
func TestFilesAsJSONLines(t *testing.T) {
	code, stdout, stderr := xwReport("", "--format=jsonl", parts+"2.txt", parts+"1.txt")
	if code != 0 || stderr != "" {
		t.Errorf("exit %d, %s", code, stderr)
	}
	if n := strings.Count(stdout, `{"kind":"xw"`); n != 2 || strings.Count(stdout, `{"kind":"sample"`) != 5 {
		t.Errorf("%d headers in\n%s", n, stdout)
	}
}

// TestPipesAsFiles: a shell's <(xw-decode < F) is a pipe with a name.
func TestPipesAsFiles(t *testing.T) {
	var args []string
	for _, name := range []string{"2", "1", "3"} {
		content, err := os.ReadFile(parts + name + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		go func() {
			defer w.Close()
			w.Write(content)
		}()
		link := filepath.Join("/dev/fd", report.Num{V: uint64(r.Fd()), OK: true}.String())
		if _, err := os.Stat(link); err != nil {
			t.Skipf("pipes have no names here: %v", err)
		}
		args = append(args, link)
	}
	code, stdout, stderr := xwReport("", args...)
	if code != 0 || stderr != "" || !strings.Contains(stdout, "in 3 streams") {
		t.Errorf("exit %d, %s\n%s", code, stdout, stderr)
	}
}

func TestProgressText(t *testing.T) {
	for _, test := range []struct {
		read, size int64
		want       string
	}{
		{read: 1 << 20, size: 2 << 20},
		{read: 1 << 20},
		{read: 16 << 20, want: "read 16 MiB"},
		{read: 1 << 20, size: 100 << 20, want: "read 1 of 100 MiB, 1%"},
		{read: 100 << 20, size: 100 << 20, want: "read 100 of 100 MiB, 100%"},
	} {
		ins := &inputs{size: test.size}
		r := &counted{io.LimitReader(zeros{}, test.read), &ins.read}
		if n, err := io.Copy(io.Discard, r); n != test.read || err != nil {
			t.Fatal(n, err)
		}
		if got := ins.progress(); got != test.want {
			t.Errorf("%d of %d: %q, want %q", test.read, test.size, got, test.want)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	n := copy(p, bytes.Repeat([]byte{0}, len(p)))
	return n, nil
}
