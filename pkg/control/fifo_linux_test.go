package control

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"xw/pkg/hwtest"
	"xw/pkg/wire"
)

func mkfifo(t *testing.T, path string, mode uint32) {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, os.FileMode(mode)); err != nil { // whatever the umask
		t.Fatal(err)
	}
}

// end is the writing end of a FIFO.
type end struct{ fd int }

func writer(t *testing.T, path string) *end {
	t.Helper()
	fd, err := syscall.Open(path, syscall.O_WRONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	e := &end{fd}
	t.Cleanup(e.close)
	return e
}

func (e *end) write(t *testing.T, records ...wire.Record) error {
	t.Helper()
	_, err := syscall.Write(e.fd, encode(t, records...))
	return err
}

func (e *end) close() {
	if e.fd >= 0 {
		syscall.Close(e.fd)
		e.fd = -1
	}
}

func send(t *testing.T, w *end, records ...wire.Record) {
	t.Helper()
	if err := w.write(t, records...); err != nil {
		t.Fatal(err)
	}
}

func receive(t *testing.T, f *FIFO) (commands []wire.Record, reasons []string, gone bool) {
	t.Helper()
	messages, gone, err := f.Read()
	if err != nil {
		t.Fatal(err)
	}
	commands, reasons = commandsOf(messages)
	return commands, reasons, gone
}

// TestMade: what Open makes is for its user alone, and gone after Close; what was there before stays.
func TestMade(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ctl")
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode() != os.ModeNamedPipe|0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	f.Close()
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("after Close: %v", err)
	}
	mkfifo(t, path, 0o600)
	if f, err = Open(path); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("it was there before, and after Close: %v", err)
	}
	os.Remove(path)
	if f, err = Open(path); err != nil {
		t.Fatal(err)
	}
	os.Remove(path)
	mkfifo(t, path, 0o600)
	f.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("another one that has taken its place: %v", err)
	}
}

func TestRefused(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	mkfifo(t, at("good"), 0o600)
	mkfifo(t, at("group"), 0o620)
	mkfifo(t, at("others"), 0o602)
	mkfifo(t, at("read"), 0o644)
	if err := os.Symlink(at("good"), at("link")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at("file"), []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"group": "others may write to it (mode 0620): chmod go-w", "others": "others may write to it (mode 0602): chmod go-w",
		"link": "it is a symbolic link", "file": "it exists and is no FIFO", ".": "it exists and is no FIFO", "no/such": "no such file or directory",
	} {
		if f, err := Open(at(name)); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %+v, %v, want %q", name, f, err, want)
		}
	}
	for _, name := range []string{"good", "read"} {
		f, err := Open(at(name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		f.Close()
	}
	if b, _ := os.ReadFile(at("file")); string(b) != "content" {
		t.Errorf("the file holds %q", b)
	}
}

// TestOwners: under sudo the FIFO is that of the user who called it.
func TestOwners(t *testing.T) {
	hwtest.RequireRoot(t)
	const user, other = 65534, 12345
	path := filepath.Join(t.TempDir(), "ctl")
	t.Setenv("SUDO_UID", "65534")
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(path)
	if err != nil || info.Sys().(*syscall.Stat_t).Uid != user || info.Mode().Perm() != 0o600 {
		t.Errorf("%+v, %v", info, err)
	}
	f.Close()
	for owner, ok := range map[int]bool{0: true, user: true, other: false} {
		mkfifo(t, path, 0o600)
		if err := os.Chown(path, owner, -1); err != nil {
			t.Fatal(err)
		}
		f, err := Open(path)
		if (err == nil) != ok || !ok && !strings.HasSuffix(err.Error(), "it belongs to user 12345") {
			t.Errorf("a FIFO of user %d: %v", owner, err)
		}
		if err == nil {
			f.Close()
		}
		os.Remove(path)
	}
	t.Setenv("SUDO_UID", "")
	mkfifo(t, path, 0o600)
	if err := os.Chown(path, user, -1); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err == nil || !strings.HasSuffix(err.Error(), "it belongs to user 65534") {
		t.Errorf("a FIFO of a user who has not called sudo: %v", err)
	}
}

// TestWriters come and go, one after the other and side by side.
func TestWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ctl")
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := writer(t, path)
	if commands, reasons, gone := receive(t, f); len(commands)+len(reasons) > 0 || gone {
		t.Errorf("%v, %q, gone %v", commands, reasons, gone)
	}
	send(t, w, controlHeader(), &wire.Read{Watch: 1, Generation: 1})
	send(t, w, &wire.Read{Watch: 2, Generation: 1})
	if commands, reasons, gone := receive(t, f); len(commands) != 2 || len(reasons) > 0 || gone {
		t.Errorf("%v, %q, gone %v", commands, reasons, gone)
	}
	second := writer(t, path)
	w.close()
	send(t, second, controlHeader(), &wire.Read{Watch: 3, Generation: 1})
	if commands, reasons, gone := receive(t, f); len(commands) != 1 || len(reasons) > 0 || gone {
		t.Errorf("%v, %q, gone %v", commands, reasons, gone)
	}
	send(t, second, &wire.Read{Watch: 4, Generation: 1})
	second.close()
	before := f.Fd()
	if commands, reasons, gone := receive(t, f); len(commands) != 1 || len(reasons) > 0 || !gone {
		t.Errorf("%v, %q, gone %v", commands, reasons, gone)
	}
	if f.Fd() == before {
		t.Error("the descriptor still hangs")
	}
	third := writer(t, path)
	send(t, third, controlHeader(), &wire.Read{Watch: 5, Generation: 1})
	if commands, reasons, gone := receive(t, f); len(commands) != 1 || len(reasons) > 0 || gone {
		t.Errorf("%v, %q, gone %v", commands, reasons, gone)
	}
	third.close()
	os.Remove(path)
	mkfifo(t, path, 0o600)
	if _, gone, err := f.Read(); !gone || err == nil || !strings.HasSuffix(err.Error(), "another FIFO has taken its place") {
		t.Errorf("gone %v, %v", gone, err)
	}
}

// TestFull reads a FIFO that is full of commands, of which one lies across the end of what is read at a time.
func TestFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ctl")
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := writer(t, path)
	sent, got := 0, 0
	fill := func() {
		for w.write(t, &wire.Read{Watch: uint32(sent), Generation: 1 << 40}) == nil {
			sent++
		}
	}
	take := func() {
		messages, gone, err := f.Read()
		if gone || err != nil {
			t.Fatal(gone, err)
		}
		for _, m := range messages {
			if r, ok := m.Command.(*wire.Read); !ok || r.Watch != uint32(got) {
				t.Fatalf("message %d: %+v", got, m)
			}
			got++
		}
	}
	for range 3 {
		fill()
		take()
	}
	take()
	if got != sent || sent < 3000 {
		t.Errorf("%d sent, %d received", sent, got)
	}
}
