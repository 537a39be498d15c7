// Package hwtest says what a test needs from the machine, and builds and starts the programs it watches. Where the need
// is not met the test is skipped with the reason; with XW_REQUIRE_HW=1 in the environment it fails instead, so that a
// machine that must run everything cannot pass by skipping.
package hwtest

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
)

// requireEnv turns skips into failures when it is "1".
const requireEnv = "XW_REQUIRE_HW"

// Require skips the test unless hardware watchpoints work here: it opens one on a word of its own and sees it fire. It
// then holds a lock until the test ends, so that of all test processes of the machine one at a time uses the four slots
// of each CPU. It waits for its turn. Call it once a test, not again in a subtest: that would wait for ever. With -short
// the test is skipped.
func Require(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("watches a live program: not with -short")
	}
	catchIgnored()
	lock(t)
	if err := probe(); err != nil {
		unmet(t, "hardware watchpoints do not work here: %v", err)
	}
}

// catchIgnored has commands that tests start obey SIGINT and SIGHUP where the tests themselves were started with them ignored,
// as by a script in the background or by nohup. That is inherited, and xw-open keeps to it, so that no test could stop it; of
// a signal that is caught it is not, see execve(2).
func catchIgnored() {
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGHUP} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}

// RequireRoot skips the test unless it runs as root.
func RequireRoot(t testing.TB) {
	t.Helper()
	if uid := os.Geteuid(); uid != 0 {
		unmet(t, "needs root, runs as uid %d", uid)
	}
}

// RequireTool skips the test unless all the named programs are in PATH.
func RequireTool(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			unmet(t, "needs a program: %v", err)
		}
	}
}

func unmet(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv(requireEnv) == "1" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}
