package symbol

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// needELF skips where the system compiler does not make ELF files.
func needELF(t testing.TB) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skipf("needs compilers that make ELF files, not those of %s", runtime.GOOS)
	}
}

// run runs a command in dir and returns its standard output; a missing tool skips the test.
func run(t testing.TB, dir, name string, args ...string) string {
	t.Helper()
	needELF(t)
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("needs %s: %v", name, err)
	}
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "DEBUGINFOD_URLS=")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}

// write puts a file into dir.
func write(t testing.TB, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// compile builds source text with the given compiler and flags in a directory of its own and returns the program's path.
func compile(t testing.TB, source, text, compiler string, flags ...string) string {
	t.Helper()
	needELF(t)
	dir := t.TempDir()
	write(t, dir, source, text)
	run(t, dir, compiler, append(append([]string{"-o", "prog"}, flags...), source)...)
	return filepath.Join(dir, "prog")
}

// open opens a file for a test.
func open(t testing.TB, path string) *File {
	t.Helper()
	file, size, err := openRegular(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Open(file, size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.Close()
		file.Close()
	})
	return f
}

// nm returns the addresses that nm prints, by name.
func nm(t testing.TB, path string, flags ...string) map[string]uint64 {
	t.Helper()
	out := map[string]uint64{}
	sc := bufio.NewScanner(strings.NewReader(run(t, "", "nm", append(flags, path)...)))
	for sc.Scan() {
		addr, rest, ok := strings.Cut(sc.Text(), " ")
		if a, err := strconv.ParseUint(addr, 16, 64); ok && err == nil && len(rest) > 2 {
			out[rest[2:]] = a
		}
	}
	return out
}
