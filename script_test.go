package xw_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"xw/pkg/hwtest"
)

// The scripts in testdata/script test the commands as their users run them. Beyond what testscript offers, they have
//
//	sh COMMAND...                 runs a shell command, pipes and all; "! sh" expects it to fail
//	cc FILE.c PROGRAM [FLAG...]   compiles a C program
//	target PROGRAM [ARG...]       starts a program and reads its ready line: $PID is then its process, and $name
//	                              each name=value of the line; it is killed when the script ends
//	finish                        closes the target's input, waits for its end, and leaves what it printed in stdout
//
// $ROOT is the top of the repository and $SAMPLE the program of examples/sample.c (in hw).

// TestScripts runs the scripts that need nothing of the machine.
func TestScripts(t *testing.T) {
	testscript.Run(t, scriptParams("testdata/script/any", buildCommands(t)))
}

// TestHardwareScripts runs the scripts that watch a live process.
func TestHardwareScripts(t *testing.T) {
	hwtest.Require(t)
	sample := buildSample(t)
	params := scriptParams("testdata/script/hw", buildCommands(t))
	setup := params.Setup
	params.Setup = func(env *testscript.Env) error {
		env.Setenv("SAMPLE", sample)
		return setup(env)
	}
	testscript.RunT(serial{t}, params)
}

// serial is a test whose subtests, the scripts, run one after the other: they share the watchpoints that it has.
type serial struct{ *testing.T }

func (serial) Parallel() {}

func (s serial) Run(name string, f func(testscript.T)) {
	s.T.Run(name, func(t *testing.T) { f(serial{t}) })
}

func (s serial) Verbose() bool { return testing.Verbose() }

// buildCommands builds the four commands and returns the directory that they are in.
func buildCommands(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", dir+"/", "./cmd/...")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the commands: %v\n%s", err, out)
	}
	return dir
}

// buildSample compiles the program that the demo watches.
func buildSample(t *testing.T) string {
	t.Helper()
	source, err := os.ReadFile("examples/sample.c")
	if err != nil {
		t.Fatal(err)
	}
	return hwtest.BuildC(t, string(source))
}

// withPath is the value of PATH where dir comes first.
func withPath(dir string) string {
	return dir + string(filepath.ListSeparator) + os.Getenv("PATH")
}

func scriptParams(dir, commands string) testscript.Params {
	return testscript.Params{
		Dir:                 dir,
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Values[targetKey{}] = new(scriptTarget)
			env.Setenv("PATH", withPath(commands))
			root, err := filepath.Abs(".")
			env.Setenv("ROOT", root)
			return err
		},
		Condition: condition,
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"sh": func(ts *testscript.TestScript, neg bool, args []string) {
				expect(ts, neg, ts.Exec("sh", "-c", strings.Join(args, " ")))
			},
			"cc":     compile,
			"target": startTarget,
			"finish": finishTarget,
		},
	}
}

// condition knows msgpack: that Debian's Python can import it. Where nothing may be skipped it is taken to hold.
func condition(name string) (bool, error) {
	if name != "msgpack" {
		return false, fmt.Errorf("unknown condition %q", name)
	}
	return os.Getenv("XW_REQUIRE_HW") != "" || exec.Command("/usr/bin/python3", "-c", "import msgpack").Run() == nil, nil
}

func expect(ts *testscript.TestScript, neg bool, err error) {
	if neg && err == nil {
		ts.Fatalf("succeeded, but was to fail")
	}
	if !neg && err != nil {
		ts.Fatalf("%v", err)
	}
}

func compile(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: cc FILE.c PROGRAM [FLAG...]")
	}
	flags := append([]string{"-g", "-O1", "-pthread", "-w", "-o", args[1], args[0]}, args[2:]...)
	expect(ts, neg, ts.Exec("cc", flags...))
}

// scriptTarget is the program that "target" started.
type scriptTarget struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	stdout *bufio.Reader
}

// targetKey is the key of the script's *scriptTarget among its values.
type targetKey struct{}

func startTarget(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: target PROGRAM [ARG...]")
	}
	cmd := exec.Command(ts.MkAbs(args[0]), args[1:]...)
	cmd.Dir = ts.MkAbs(".")
	stdin, err := cmd.StdinPipe()
	ts.Check(err)
	stdout, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	ts.Defer(func() {
		_ = cmd.Process.Kill() // fails if it has ended
		_ = cmd.Wait()
	})
	target := ts.Value(targetKey{}).(*scriptTarget)
	*target = scriptTarget{cmd, stdin, bufio.NewReader(stdout)}
	line, err := target.stdout.ReadString('\n')
	ts.Check(err)
	for word := range strings.FieldsSeq(line) {
		if name, value, ok := strings.Cut(word, "="); ok {
			ts.Setenv(name, value)
		}
	}
	ts.Setenv("PID", strconv.Itoa(cmd.Process.Pid))
}

func finishTarget(ts *testscript.TestScript, neg bool, args []string) {
	target := ts.Value(targetKey{}).(*scriptTarget)
	if len(args) != 0 || target.cmd == nil {
		ts.Fatalf("usage: finish, after target")
	}
	target.stdin.Close()
	rest, err := io.ReadAll(target.stdout)
	ts.Check(err)
	expect(ts, neg, target.cmd.Wait())
	_, err = ts.Stdout().Write(rest)
	ts.Check(err)
}
