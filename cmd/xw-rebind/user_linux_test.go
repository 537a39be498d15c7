package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// nobody is a user without privileges, for programs started by root.
func nobody() *syscall.SysProcAttr {
	const id = 65534
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id}}
}

// shared copies a program to where every user may run it.
func shared(t testing.TB, program string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "xw-rebind-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	b, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, filepath.Base(program))
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}
