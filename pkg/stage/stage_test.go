package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

type testFlags struct {
	PID      Number        `name:"pid" help:"Process."`
	Duration time.Duration `help:"How long."`
	Watch    []string      `sep:"none" help:"What to watch."`
	List     Optional      `help:"List symbols." placeholder:"[PATTERN]"`
	Regs     bool          `default:"true" negatable:""`
	Format   string        `enum:"text,json" default:"text"`
	Cmd      []string      `arg:"" optional:""`
}

func (f *testFlags) Validate() error {
	if f.PID == 13 {
		return errors.New("thirteen is refused")
	}
	return nil
}

// runTest runs a command that does do, with args, in this process.
func runTest(do func(ctx context.Context, s *Stage) error, flags any, stdin io.Reader, args ...string) (code int, out, errOut string) {
	var stdout, stderr bytes.Buffer
	code = Run(Command{Name: "xw-test", Summary: "Test things.", Flags: flags, Rule: Filter, Do: do},
		args, stdin, &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func nothing(context.Context, *Stage) error { return nil }

func TestFlags(t *testing.T) {
	for _, test := range []struct {
		args string
		ok   func(f *testFlags) bool
		err  string // what standard error must contain
	}{
		{"--pid 10", func(f *testFlags) bool { return f.PID == 10 && f.Regs }, ""},
		{"--pid 010", func(f *testFlags) bool { return f.PID == 10 }, ""},
		{"--pid 0x10", func(f *testFlags) bool { return f.PID == 16 }, ""},
		{"--pid=0X010", func(f *testFlags) bool { return f.PID == 16 }, ""},
		{"--pid 0", func(f *testFlags) bool { return f.PID == 0 }, ""},
		{"--pid 0o17", nil, `got "0o17"`},
		{"--pid 1_000", nil, `got "1_000"`},
		{"--pid 0x", nil, `got "0x"`},
		{"--pid 0x-1", nil, `got "0x-1"`},
		{"--pid ten", nil, `got "ten"`},
		{"--pid 18446744073709551616", nil, "64 bits"},
		{"--pid 13", nil, "thirteen is refused"},
		{"--duration 5s", func(f *testFlags) bool { return f.Duration == 5*time.Second }, ""},
		{"--duration 010ms", func(f *testFlags) bool { return f.Duration == 10*time.Millisecond }, ""},
		{"--duration 0", func(f *testFlags) bool { return f.Duration == 0 }, ""},
		{"--duration 5", nil, "missing unit"},
		{"--watch f(int,long):4 --watch b", func(f *testFlags) bool { return len(f.Watch) == 2 && f.Watch[0] == "f(int,long):4" }, ""},
		{"", func(f *testFlags) bool { return !f.List.Set }, ""},
		{"--list", func(f *testFlags) bool { return f.List == Optional{true, ""} }, ""},
		{"--list count*", func(f *testFlags) bool { return f.List == Optional{true, "count*"} }, ""},
		{"--list=count*", func(f *testFlags) bool { return f.List == Optional{true, "count*"} }, ""},
		{"--list --pid 5", func(f *testFlags) bool { return f.List == Optional{true, ""} && f.PID == 5 }, ""},
		{"--list -- prog", func(f *testFlags) bool { return f.List == Optional{true, ""} && f.Cmd[0] == "prog" }, ""},
		{"--no-regs", func(f *testFlags) bool { return !f.Regs }, ""},
		{"--format xml", nil, "--format must be one of"},
		{"--bogus", nil, "unknown flag --bogus"},
		{"--pid 5 -- prog --pid 6 -x", func(f *testFlags) bool {
			return f.PID == 5 && strings.Join(f.Cmd, " ") == "prog --pid 6 -x"
		}, ""},
	} {
		flags := testFlags{PID: 99, Cmd: []string{"left over from before"}}
		code, out, errOut := runTest(nothing, &flags, strings.NewReader(""), strings.Fields(test.args)...)
		if out != "" {
			t.Errorf("%q: printed %q on standard output", test.args, out)
		}
		if test.ok != nil {
			if code != 0 || errOut != "" || !test.ok(&flags) {
				t.Errorf("%q: exit %d, %q, flags %+v", test.args, code, errOut, flags)
			}
			continue
		}
		lines := strings.SplitAfter(errOut, "\n")
		if code != 2 || !strings.Contains(errOut, test.err) || !strings.HasPrefix(errOut, "xw-test: ") ||
			len(lines) != 3 || lines[1] != "hint: xw-test --help\n" {
			t.Errorf("%q: exit %d, %q", test.args, code, errOut)
		}
	}
}

func TestHelpOnlyWhenAsked(t *testing.T) {
	ran := false
	code, out, errOut := runTest(func(context.Context, *Stage) error { ran = true; return nil }, &testFlags{},
		strings.NewReader(""), "--help")
	if code != 0 || errOut != "" || ran || !strings.Contains(out, "Usage: xw-test") || !strings.Contains(out, "Test things.") {
		t.Errorf("exit %d, ran %v, stdout %q, stderr %q", code, ran, out, errOut)
	}
}

type otherUsage struct{ usage bool }

func (otherUsage) Error() string { return "of another package" }
func (e otherUsage) Usage() bool { return e.usage }
func (otherUsage) Hint() string  { return "do this" }
func (otherUsage) Unwrap() error { return nil }

func TestExit(t *testing.T) {
	plain := errors.New("open \"x\": no such file")
	for _, test := range []struct {
		err    error
		code   int
		stderr string
	}{
		{nil, 0, ""},
		{plain, 1, "xw-test: open \"x\": no such file\n"},
		{Usagef("which: %w", plain), 2, "xw-test: which: open \"x\": no such file\n"},
		{fmt.Errorf("start: %w", otherUsage{true}), 2, "xw-test: start: of another package\nhint: do this\n"},
		{fmt.Errorf("start: %w", otherUsage{false}), 1, "xw-test: start: of another package\nhint: do this\n"},
		{WithHint(WithHint(plain, "first %d", 1), "second"), 1, "xw-test: open \"x\": no such file\nhint: second\nhint: first 1\n"},
		{errors.Join(WithHint(plain, "a"), WithHint(plain, "a")), 1,
			"xw-test: open \"x\": no such file\n  open \"x\": no such file\nhint: a\n"},
		{fmt.Errorf("render: %w", ErrDownstreamClosed), 0, ""},
	} {
		code, out, errOut := runTest(func(context.Context, *Stage) error { return test.err }, nil, strings.NewReader(""))
		if code != test.code || errOut != test.stderr || out != "" {
			t.Errorf("%v: exit %d, stderr %q, want %d, %q", test.err, code, errOut, test.code, test.stderr)
		}
	}
}

func TestMessagesDoNotDriveTheTerminal(t *testing.T) {
	var b bytes.Buffer
	m := NewMessages("xw-test", &b)
	m.Say("comm %s\nnext\tone: größe", "\x1b[2Jx\u202e\r")
	want := "xw-test: comm \\x1b[2Jx\\u202e\\r\n  next\\tone: größe\n"
	if b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
	var none *Messages
	none.Say("goes nowhere")
}

// TestStdin reads all there is, in pieces of any size, and the error behind it.
func TestStdin(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789abcdef"), 3*blockSize/16+5)
	broken := errors.New("broken disk")
	for _, size := range []int{1000, blockSize, 5 * blockSize} {
		src := io.MultiReader(bytes.NewReader(data), readerFunc(func([]byte) (int, error) { return 0, broken }))
		var got []byte
		code, _, errOut := runTest(func(_ context.Context, s *Stage) error {
			buf := make([]byte, size)
			for {
				n, err := s.Stdin.Read(buf)
				got = append(got, buf[:n]...)
				if err != nil {
					return err
				}
			}
		}, nil, src)
		if code != 1 || errOut != "xw-test: broken disk\n" || !bytes.Equal(got, data) {
			t.Errorf("size %d: exit %d, %q, %d of %d bytes", size, code, errOut, len(got), len(data))
		}
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestClosedPipeInProcess closes the reader of an io.Pipe, which stands for the pipe when commands run in one process.
func TestClosedPipeInProcess(t *testing.T) {
	r, w := io.Pipe()
	r.Close()
	var stderr bytes.Buffer
	var cause error
	code := Run(Command{Name: "xw-test", Do: func(ctx context.Context, s *Stage) error {
		_, err := s.Stdout.Write([]byte("x"))
		<-ctx.Done()
		cause = context.Cause(ctx)
		return err
	}}, nil, strings.NewReader(""), w, &stderr)
	if code != 0 || stderr.Len() != 0 || !errors.Is(cause, ErrDownstreamClosed) {
		t.Errorf("exit %d, stderr %q, cause %v", code, stderr.String(), cause)
	}
}
