package hwtest

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// Target is a running program that prints a ready line as its first line of output: words, of which those with a "="
// are values that the test can ask for, such as "ready counter=0x404040 threads=4".
type Target struct {
	Cmd *exec.Cmd
	PID int

	t      testing.TB
	stdin  io.WriteCloser
	lines  *bufio.Reader
	stderr bytes.Buffer
	ready  map[string]string
	waited bool
}

// Start starts a program and reads its ready line. The program is killed when the test ends.
func Start(t testing.TB, program string, args ...string) *Target {
	t.Helper()
	return StartCmd(t, exec.Command(program, args...))
}

// StartCmd is Start for a command that was prepared by the caller, who leaves its standard input and output alone.
func StartCmd(t testing.TB, cmd *exec.Cmd) *Target {
	t.Helper()
	target := &Target{Cmd: cmd, t: t}
	stdin, err := cmd.StdinPipe()
	target.must("pipe", err)
	stdout, err := cmd.StdoutPipe()
	target.must("pipe", err)
	if cmd.Stderr == nil {
		cmd.Stderr = &target.stderr
	}
	target.must("start", cmd.Start())
	t.Cleanup(target.kill)
	target.PID, target.stdin, target.lines = cmd.Process.Pid, stdin, bufio.NewReader(stdout)
	target.ready = values(target.Line())
	return target
}

func (p *Target) must(what string, err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatalf("%s %s: %v\n%s", what, p.Cmd.Path, err, p.stderr.Bytes())
	}
}

func (p *Target) kill() {
	if !p.waited {
		_ = p.Cmd.Process.Kill() // fails if it has ended by itself
		_ = p.Cmd.Wait()
	}
	if p.t.Failed() && p.stderr.Len() > 0 {
		p.t.Logf("%s printed on standard error:\n%s", p.Cmd.Path, p.stderr.Bytes())
	}
}

// Line returns the next line of output, without its end.
func (p *Target) Line() string {
	p.t.Helper()
	line, err := p.lines.ReadString('\n')
	p.must("read a line of", err)
	return strings.TrimSuffix(line, "\n")
}

// Send writes a line to the program.
func (p *Target) Send(line string) {
	p.t.Helper()
	_, err := io.WriteString(p.stdin, line+"\n")
	p.must("write to", err)
}

// Uint is a number of the ready line, decimal or hexadecimal.
func (p *Target) Uint(name string) uint64 {
	p.t.Helper()
	return number(p.t, p.ready, name)
}

// Signal sends a signal.
func (p *Target) Signal(sig os.Signal) {
	p.t.Helper()
	p.must("signal", p.Cmd.Process.Signal(sig))
}

// Finish closes the program's input, waits for its end and returns the values of its last line of output, that of which
// it has any. It fails the test if the program fails.
func (p *Target) Finish() Values {
	p.t.Helper()
	p.stdin.Close()
	rest, err := io.ReadAll(p.lines)
	p.must("read the output of", err)
	p.waited = true
	p.must("wait for", p.Cmd.Wait())
	lines := strings.Split(strings.TrimSuffix(string(rest), "\n"), "\n")
	return Values{p.t, values(lines[len(lines)-1])}
}

// Values are the name=value words of a line.
type Values struct {
	t     testing.TB
	words map[string]string
}

// Uint is a number, decimal or hexadecimal.
func (v Values) Uint(name string) uint64 {
	v.t.Helper()
	return number(v.t, v.words, name)
}

func values(line string) map[string]string {
	words := map[string]string{}
	for _, word := range strings.Fields(line) {
		if name, value, ok := strings.Cut(word, "="); ok {
			words[name] = value
		}
	}
	return words
}

func number(t testing.TB, words map[string]string, name string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(words[name], 0, 64)
	if err != nil {
		t.Fatalf("value %s of the program's line %v: %v", name, words, err)
	}
	return n
}
