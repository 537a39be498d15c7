// Package golden compares what a test got with a file of the repository.
//
//	go test ./pkg/x -update        rewrites the files that exist and differ
//	go test ./pkg/x -update-new    also makes those that are missing
//
// A missing file fails the test: it is made on purpose, never on the fly, and read before it is committed.
package golden

import (
	"bytes"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/diff"
)

const (
	flagUpdate    = "update"
	flagUpdateNew = "update-new"
)

func init() {
	flag.Bool(flagUpdate, false, "rewrite golden files that exist")
	flag.Bool(flagUpdateNew, false, "rewrite golden files, and make missing ones")
}

// Check fails t, showing a diff, unless the file at path has exactly the bytes of got.
func Check(t testing.TB, got []byte, path string) {
	t.Helper()
	check(t, got, path, flagSet(flagUpdate), flagSet(flagUpdateNew))
}

func flagSet(name string) bool {
	return flag.Lookup(name).Value.(flag.Getter).Get().(bool)
}

func check(t testing.TB, got []byte, path string, update, create bool) {
	t.Helper()
	want, err := os.ReadFile(path)
	switch missing := errors.Is(err, fs.ErrNotExist); {
	case missing && !create:
		t.Errorf("no golden file %s; -%s makes it. Got:\n%s", path, flagUpdateNew, got)
	case err != nil && !missing:
		t.Error(err)
	case err == nil && bytes.Equal(got, want):
	case update || create:
		write(t, got, path)
	default:
		t.Errorf("differs from the golden file; if that is right, -%s rewrites it\n%s", flagUpdate,
			diff.Diff(path, want, "got", got))
	}
}

func write(t testing.TB, got []byte, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, got, 0o666); err != nil {
		t.Fatal(err)
	}
	t.Logf("wrote %s", path)
}
