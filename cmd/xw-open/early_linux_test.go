package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"xw/pkg/hwtest"
)

// TestCommandNamesOfTheLoader does not take the loader for the only one that has a name because no other library is there
// yet when a program starts.
func TestCommandNamesOfTheLoader(t *testing.T) {
	hwtest.Require(t)
	lib := filepath.Join(t.TempDir(), "libtwin.so")
	if err := os.Rename(hwtest.Compile(t, "cc", "lib.c", "long _r_debug = 1;\nlong twin(void) { return _r_debug; }\n",
		"-shared", "-fPIC", "-Wl,-soname,libtwin.so"), lib); err != nil {
		t.Fatal(err)
	}
	program := hwtest.BuildC(t, "long twin(void);\nint main(void) { return twin() == 0; }\n", lib, "-Wl,-rpath,"+filepath.Dir(lib))
	xwOpen(t, "--watch", "_r_debug:8", "--", program).refused(1,
		`watch "_r_debug": "_r_debug" is ambiguous: libtwin.so!_r_debug at  ... , ld-linux-x86-64.so.2!_r_debug at  ... `,
		"name the module: MODULE!SYMBOL")
}

// TestFullDisk says once that the stream could not be written.
func TestFullDisk(t *testing.T) {
	hwtest.Require(t)
	program := hwtest.BuildC(t, early)
	o := xwOpen(t, "--watch", "counter", "-o", "/dev/full", "--", program)
	code := o.code()
	slices.Sort(o.said) // the program says "main 1" when it comes to it
	want := []string{"main 1", "xw-open: ready ", "xw-open: write /dev/full: no space left on device"}
	if code != 1 || !slices.EqualFunc(o.said, want, strings.HasPrefix) {
		t.Errorf("exit %d, said %q", code, o.said)
	}
}
