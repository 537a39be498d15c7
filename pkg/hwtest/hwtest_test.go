package hwtest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
)

// recorder keeps how a test would have ended, and ends the goroutine as that would.
type recorder struct {
	testing.TB
	skipped, failed string
}

func (r *recorder) Helper() {}
func (r *recorder) Skipf(format string, args ...any) {
	r.skipped = fmt.Sprintf(format, args...)
	runtime.Goexit()
}
func (r *recorder) Fatalf(format string, args ...any) {
	r.failed = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func record(t *testing.T, f func(testing.TB)) *recorder {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(r)
	}()
	<-done
	return r
}

func TestUnmetNeeds(t *testing.T) {
	need := func(t testing.TB) { RequireTool(t, "sh", "no-such-program-of-xw") }
	t.Setenv(requireEnv, "")
	if r := record(t, need); r.skipped == "" || r.failed != "" {
		t.Errorf("skipped %q, failed %q", r.skipped, r.failed)
	}
	t.Setenv(requireEnv, "1")
	if r := record(t, need); r.skipped != "" || r.failed == "" {
		t.Errorf("skipped %q, failed %q", r.skipped, r.failed)
	}
	if r := record(t, func(t testing.TB) { RequireTool(t, "sh") }); r.failed != "" {
		t.Errorf("sh: %q", r.failed)
	}
}

// TestCatchIgnored runs the test below with SIGINT and SIGHUP ignored: the commands it starts must not have them ignored.
func TestCatchIgnored(t *testing.T) {
	RequireTool(t, "sh", "grep")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("XW_IGNORED") == "1" {
		catchIgnored()
		if out, err := exec.Command("sh", "-c", "kill -INT $$; echo survived").CombinedOutput(); err == nil || len(out) > 0 {
			t.Errorf("SIGINT is ignored: %v, %s", err, out)
		}
		if out, err := exec.Command("sh", "-c", "kill -HUP $$; echo survived").CombinedOutput(); err == nil || len(out) > 0 {
			t.Errorf("SIGHUP is ignored: %v, %s", err, out)
		}
		return
	}
	cmd := exec.Command("sh", "-c", `trap "" INT HUP; exec "$0" -test.run '^TestCatchIgnored$'`, self)
	cmd.Env = append(os.Environ(), "XW_IGNORED=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestRequire(t *testing.T) {
	Require(t)
	if err := probe(); err != nil {
		t.Errorf("probe works no second time: %v", err)
	}
}

const echoProgram = `#include <stdio.h>
int counter;
int main(void) {
	printf("ready counter=%p more\n", (void *)&counter);
	fflush(stdout);
	char line[100];
	long sum = 0;
	for (long n; fgets(line, sizeof line, stdin) && sscanf(line, "%ld", &n) == 1;) {
		printf("got %ld\n", n);
		fflush(stdout);
		sum += n;
	}
	printf("end sum=%ld\n", sum);
	return sum == 13;
}
`

func TestTarget(t *testing.T) {
	p := Start(t, BuildC(t, echoProgram, "-no-pie"))
	if addr := p.Uint("counter"); addr == 0 || addr%4 != 0 {
		t.Errorf("counter at %#x", addr)
	}
	p.Send("3")
	if line := p.Line(); line != "got 3" {
		t.Errorf("line %q", line)
	}
	p.Send("4")
	if sum := p.Finish().Uint("sum"); sum != 7 {
		t.Errorf("sum %d", sum)
	}

	failing := Start(t, BuildC(t, echoProgram, "-no-pie"))
	failing.Send("13")
	if r := record(t, func(r testing.TB) { failing.t = r; failing.Finish() }); r.failed == "" {
		t.Error("an exit status of 1 passed")
	}
	failing.t = t
}

func TestCompileCache(t *testing.T) {
	first := BuildC(t, echoProgram)
	second := BuildC(t, echoProgram)
	other := BuildC(t, echoProgram, "-O0")
	a, _ := os.ReadFile(first)
	b, _ := os.ReadFile(second)
	c, _ := os.ReadFile(other)
	if first == second || len(a) == 0 || !bytes.Equal(a, b) || bytes.Equal(a, c) {
		t.Errorf("%s %d bytes, %s %d bytes, with other flags %d bytes", first, len(a), second, len(b), len(c))
	}
	if !bytes.Contains(a, []byte(SourceDir)) {
		t.Errorf("debug information does not name %s", SourceDir)
	}
	if r := record(t, func(t testing.TB) { BuildC(t, "syntax error\n") }); r.failed == "" {
		t.Error("a program that does not compile passed")
	}
}
