package golden

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recorder is a testing.TB that keeps what it is told instead of failing.
type recorder struct {
	testing.TB
	errors []string
}

func (r *recorder) Helper()                           {}
func (r *recorder) Logf(string, ...any)               {}
func (r *recorder) Error(args ...any)                 { r.errors = append(r.errors, fmt.Sprint(args...)) }
func (r *recorder) Errorf(format string, args ...any) { r.Error(fmt.Sprintf(format, args...)) }
func (r *recorder) Fatal(args ...any)                 { r.Error(args...) }

func TestCheck(t *testing.T) {
	for _, test := range []struct {
		name           string
		file           string // "" is no file
		got            string
		update, create bool
		fails          string // what the failure must show
		after          string
	}{
		{name: "same", file: "a\n", got: "a\n", after: "a\n"},
		{name: "differs", file: "a\nb\n", got: "a\nc\n", fails: "-b\n+c\n", after: "a\nb\n"},
		{name: "missing", got: "new\n", fails: "no golden file"},
		{name: "missing, update", got: "new\n", update: true, fails: "no golden file"},
		{name: "update", file: "a\n", got: "b\n", update: true, after: "b\n"},
		{name: "create", got: "new\n", create: true, after: "new\n"},
		{name: "create over old", file: "a\n", got: "b\n", create: true, after: "b\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "sub", "x.txt")
			if test.file != "" {
				write(t, []byte(test.file), path)
			}
			r := &recorder{TB: t}
			check(r, []byte(test.got), path, test.update, test.create)
			failure := strings.Join(r.errors, "\n")
			if (failure != "") != (test.fails != "") || !strings.Contains(failure, test.fails) {
				t.Errorf("failure %q, want %q", failure, test.fails)
			}
			after, _ := os.ReadFile(path)
			if string(after) != test.after {
				t.Errorf("file is then %q, want %q", after, test.after)
			}
		})
	}
}
