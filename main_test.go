package xw_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// binEnv names the directory that TestMain has built the commands into. It is first in PATH, too.
const binEnv = "XW_TEST_BIN"

// TestMain builds the commands, since the tests of the whole run them as processes.
func TestMain(m *testing.M) {
	code, err := withCommands(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func withCommands(run func() int) (code int, err error) {
	dir, err := os.MkdirTemp("", "xw-test-bin")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	build := exec.Command("go", "build", "-o", dir+"/", "./cmd/...")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("build the commands: %w\n%s", err, out)
	}
	os.Setenv(binEnv, dir)
	os.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	return run(), nil
}
