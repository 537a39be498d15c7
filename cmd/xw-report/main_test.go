package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const streams = "../../pkg/report/testdata/"

// runAsCommand makes the test binary behave as xw-report, for what only a process of its own can show.
const runAsCommand = "XW_REPORT_RUN"

func TestMain(m *testing.M) {
	if os.Getenv(runAsCommand) != "" {
		main()
	}
	os.Exit(m.Run())
}

func stream(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(streams + name + ".xw.txt")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// xwReport runs the command in this process.
func xwReport(stdin string, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(args, strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

func TestExit(t *testing.T) {
	plain := stream(t, "plain")
	for _, test := range []struct {
		name   string
		stdin  string
		args   []string
		code   int
		stdout []string
		stderr []string
	}{
		{name: "text", stdin: plain, stdout: []string{"5 hits by 4 threads", "complete"}},
		{name: "json", stdin: plain, args: []string{"--format", "json"}, stdout: []string{`"complete": true`}},
		{name: "jsonl", stdin: plain, args: []string{"--format=jsonl"}, stdout: []string{`{"kind":"end"`}},
		{name: "top", stdin: plain, args: []string{"--top", "1"}, stdout: []string{"1 site more (--top 0 shows all)"}},
		{name: "color", stdin: plain, args: []string{"--color=always"}, stdout: []string{"\x1b[1m"}},
		{name: "truncated", stdin: stream(t, "truncated"), code: 1, stdout: []string{"INCOMPLETE", "the stream ends too early"},
			stderr: []string{"xw-report: read stream: truncated"}},
		{name: "cut in a record", stdin: plain[:len(plain)-30], code: 1, stdout: []string{"INCOMPLETE"}, stderr: []string{"xw-report: "}},
		{name: "truncated jsonl", stdin: stream(t, "truncated"), args: []string{"--format=jsonl"}, code: 1,
			stdout: []string{`"kind":"lost"`}, stderr: []string{"truncated"}},
		{name: "bad line", stdin: strings.Replace(plain, "exit time=", "exit tim=", 1), code: 1,
			stdout: []string{"5 hits", "1 malformed record"}, stderr: []string{"xw-report: "}},
		{name: "raw", stdin: "xw version=1 stream=\"raw\" session={}\n", code: 1,
			stderr: []string{`this is a stream of "raw"`, "hint: xw-open ... | xw-decode | xw-report"}},
		{name: "raw as jsonl", stdin: "xw version=1 stream=\"raw\" session={}\n", args: []string{"--format=jsonl"}, code: 1,
			stderr: []string{"hint: xw-open ... | xw-decode"}},
		{name: "nothing", code: 1, stderr: []string{"the input is empty"}},
		{name: "garbage", stdin: "\x01\x02\x03", code: 1, stderr: []string{"xw-report: "}},
		{name: "no such format", stdin: plain, args: []string{"--format=xml"}, code: 2, stderr: []string{"--format"}},
		{name: "no such op", stdin: plain, args: []string{"--op=q"}, code: 2, stderr: []string{"--op"}},
		{name: "live json", stdin: plain, args: []string{"--live", "--format=json"}, code: 2, stderr: []string{"--live shows text"}},
		{name: "live file", stdin: plain, args: []string{"--live", "-o", "x"}, code: 2, stderr: []string{"--live writes to standard output"}},
		{name: "live of a file", stdin: plain, args: []string{"--live", "x"}, code: 2, stderr: []string{"--live follows standard input"}},
		{name: "no such flag", stdin: plain, args: []string{"--nope"}, code: 2, stderr: []string{"xw-report: "}},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, stdout, stderr := xwReport(test.stdin, test.args...)
			if code != test.code {
				t.Errorf("exit %d, want %d", code, test.code)
			}
			for _, want := range test.stdout {
				if !strings.Contains(stdout, want) {
					t.Errorf("stdout lacks %q:\n%s", want, stdout)
				}
			}
			for _, want := range test.stderr {
				if !strings.Contains(stderr, want) {
					t.Errorf("stderr lacks %q:\n%s", want, stderr)
				}
			}
			if test.stdout == nil && stdout != "" || test.stderr == nil && stderr != "" {
				t.Errorf("stdout %q, stderr %q", stdout, stderr)
			}
		})
	}
}

func TestOutputFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out.json")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		stream string
		code   int
	}{{"plain", 0}, {"truncated", 1}} {
		code, stdout, stderr := xwReport(stream(t, test.stream), "--format=json", "-o", path)
		if code != test.code || stdout != "" {
			t.Errorf("%s: exit %d, stdout %q, stderr %q", test.stream, code, stdout, stderr)
		}
		b, err := os.ReadFile(path)
		var report struct{ Schema string }
		if err != nil || json.Unmarshal(b, &report) != nil || report.Schema != "xw.report/1" {
			t.Errorf("%s: file holds %q (%v)", test.stream, b, err)
		}
	}
	fresh := filepath.Join(dir, "fresh")
	if code, _, stderr := xwReport(stream(t, "plain"), "-o", fresh); code != 0 {
		t.Error(stderr)
	}
	like, err := os.Create(filepath.Join(dir, "like")) // with the permissions that any new file gets
	if err != nil {
		t.Fatal(err)
	}
	like.Close()
	want, _ := os.Stat(like.Name())
	if info, err := os.Stat(fresh); err != nil || info.Mode() != want.Mode() {
		t.Errorf("mode %v, want %v (%v)", info.Mode(), want.Mode(), err)
	}
	if files, _ := os.ReadDir(dir); len(files) != 3 {
		t.Errorf("files left: %v", files)
	}
	for _, bad := range []string{dir, filepath.Join(dir, "none", "x")} {
		if code, _, stderr := xwReport(stream(t, "plain"), "-o", bad); code != 1 || !strings.Contains(stderr, "write report: ") {
			t.Errorf("-o %s: exit %d, %s", bad, code, stderr)
		}
	}
	if code, _, stderr := xwReport(stream(t, "plain"), "-o", os.DevNull); code != 0 {
		t.Errorf("-o %s: %s", os.DevNull, stderr)
	}
}

// TestJSONLAsItArrives reads each object before the next record is written.
func TestJSONLAsItArrives(t *testing.T) {
	in, feed := io.Pipe()
	read, out := io.Pipe()
	done := make(chan int)
	go func() {
		code := run([]string{"--format=jsonl"}, in, out, io.Discard)
		out.Close()
		done <- code
	}()
	lines := bufio.NewScanner(read)
	lines.Buffer(nil, 1<<20)
	for line := range strings.Lines(stream(t, "plain")) {
		if _, err := io.WriteString(feed, line); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(line, "#") {
			continue
		}
		kind, _, _ := strings.Cut(line, " ")
		if !lines.Scan() || !strings.HasPrefix(lines.Text(), `{"kind":"`+kind+`"`) {
			t.Fatalf("after %q came %q", kind, lines.Text())
		}
	}
	feed.Close()
	if code := <-done; code != 0 {
		t.Errorf("exit %d", code)
	}
}

// TestReaderGone: nobody reads the report any more.
func TestReaderGone(t *testing.T) {
	for _, format := range []string{"text", "json", "jsonl"} {
		read, out := io.Pipe()
		read.Close()
		var stderr bytes.Buffer
		if code := run([]string{"--format", format}, strings.NewReader(stream(t, "plain")), out, &stderr); code != 0 || stderr.Len() > 0 {
			t.Errorf("%s: exit %d, stderr %q", format, code, stderr.String())
		}
	}
}

// command starts xw-report in a process of its own, with its input and output at hand.
func command(t *testing.T, args ...string) (cmd *exec.Cmd, stdin io.WriteCloser, stdout *bufio.Reader) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command(self, args...)
	cmd.Env = append(os.Environ(), runAsCommand+"=1")
	if stdin, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd, stdin, bufio.NewReader(out)
}

// TestInterrupt: the first Ctrl-C changes nothing, since the end of the stream is still to come; the second prints what
// there is.
func TestInterrupt(t *testing.T) {
	cmd, stdin, stdout := command(t, "--live")
	before, rest, _ := strings.Cut(stream(t, "plain"), "\nsample ")
	second := strings.Index(rest, "\nsample ") + 1
	third := second + strings.Index(rest[second:], "\n") + 1
	io.WriteString(stdin, before+"\n")
	waitFor(t, stdout, "so far") // it runs, and its handlers are in place
	cmd.Process.Signal(os.Interrupt)
	io.WriteString(stdin, "sample "+rest[:third])
	waitFor(t, stdout, "2 hits")
	cmd.Process.Signal(os.Interrupt)
	after, _ := io.ReadAll(stdout)
	if !strings.Contains(string(after), "INCOMPLETE") {
		t.Errorf("after the second signal:\n%s", after)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("exit %v", err)
	}
}

func waitFor(t *testing.T, r *bufio.Reader, text string) {
	t.Helper()
	for {
		line, err := r.ReadString('\n')
		if strings.Contains(line, text) {
			return
		}
		if err != nil {
			t.Fatalf("output ended without %q: %v", text, err)
		}
	}
}
