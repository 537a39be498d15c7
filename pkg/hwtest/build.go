package hwtest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// SourceDir is the directory that the debug information of a built program names for its source file.
const SourceDir = "/xw-test-source"

// BuildC compiles a C program and returns its path, in a directory of the test's own. The source file is called
// SourceDir/main.c in the debug information. Flags follow the default ones, "-g -O1 -pthread -w", and may undo them.
func BuildC(t testing.TB, text string, flags ...string) string {
	t.Helper()
	return Compile(t, "cc", "main.c", text, append([]string{"-g", "-O1", "-pthread", "-w"}, flags...)...)
}

// Compile compiles one source file, whose text is given, by "compiler flags... name -o program" and returns the
// program's path. What was compiled before, with the same compiler, text and flags, is copied.
func Compile(t testing.TB, compiler, name, text string, flags ...string) string {
	t.Helper()
	RequireTool(t, compiler)
	program := filepath.Join(t.TempDir(), "prog")
	cached, err := cachePath(compiler, name, text, flags)
	if err != nil {
		t.Fatalf("compile %s: %v", name, err)
	}
	if copyFile(cached, program) == nil {
		return program
	}
	if err := compile(program, compiler, name, text, flags); err != nil {
		t.Fatalf("compile %s: %v", name, err)
	}
	if err := copyFile(program, cached); err != nil {
		t.Logf("keep the compiled program: %v", err)
	}
	return program
}

// RequireC skips the test unless the C compiler can make a program with the given flags, for example -m32 or -static.
func RequireC(t testing.TB, flags ...string) {
	t.Helper()
	RequireTool(t, "cc")
	err := compile(filepath.Join(t.TempDir(), "probe"), "cc", "main.c", "int main(void) { return 0; }\n", flags)
	if err != nil {
		unmet(t, "needs a C compiler that takes %s: %v", strings.Join(flags, " "), err)
	}
}

func compile(program, compiler, name, text string, flags []string) error {
	dir := filepath.Dir(program)
	source := filepath.Join(dir, name)
	if err := os.WriteFile(source, []byte(text), 0o666); err != nil {
		return err
	}
	args := append([]string{name, "-o", program, "-fdebug-prefix-map=" + dir + "=" + SourceDir}, flags...)
	cmd := exec.Command(compiler, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", compiler, strings.Join(args, " "), err, out)
	}
	return nil
}

// cachePath names the place of a compiled program in a directory that only this user can write.
func cachePath(compiler, name, text string, flags []string) (string, error) {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("xw-hwtest-%d", os.Getuid()))
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	if !info.IsDir() || info.Mode().Perm()&0o077 != 0 || !ownedByUser(info) {
		return "", fmt.Errorf("%s is not a directory of this user alone", dir)
	}
	version, err := exec.Command(compiler, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", compiler, err)
	}
	key := sha256.Sum256(fmt.Appendf(nil, "%q", []any{compiler, string(version), name, text, flags}))
	return filepath.Join(dir, fmt.Sprintf("%x", key[:16])), nil
}

// copyFile makes a program at path to, all at once, with the bytes of the file from.
func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	part, err := os.CreateTemp(filepath.Dir(to), "part")
	if err != nil {
		return err
	}
	defer os.Remove(part.Name())
	_, err = part.Write(data)
	if err := errors.Join(err, part.Chmod(0o755), part.Close()); err != nil {
		return err
	}
	return os.Rename(part.Name(), to)
}
