package main

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const long = time.Minute // a timeout that the test does not wait for

// until waits for what happens in another goroutine.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for range 2000 {
		if done() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("never: %s", what)
}

func TestFIFOWaitsForItsReader(t *testing.T) {
	for _, test := range []struct {
		name string
		made bool // before xw-rebind starts; opened afterwards
	}{{"not made", false}, {"not opened", true}} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ctl")
			mk := func() {
				if err := syscall.Mkfifo(path, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if test.made {
				mk()
			}
			f, err := openFIFO(path, long)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			write(t, f, "first ")
			write(t, f, "second")
			if !test.made {
				mk()
			}
			r := &reader{path: path}
			r.open(t)
			var got []byte
			until(t, "the commands arrive", func() bool {
				got = append(got, r.bytes(t)...)
				return string(got) == "first second"
			})
		})
	}
}

func (f *fifo) backlog() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.waiting)
}

func write(t *testing.T, f *fifo, s string) {
	t.Helper()
	if n, err := f.Write([]byte(s)); n != len(s) || err != nil {
		t.Fatalf("write %q: %d, %v", s, n, err)
	}
}

func TestFIFOGivesUpWaiting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ctl")
	if _, err := openFIFO(path, 0); err == nil || err.Error() != `open control: "`+path+`": nobody reads it` {
		t.Errorf("error %v", err)
	}
	f, err := openFIFO(path, 20*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	until(t, "a write fails", func() bool {
		_, err := f.Write([]byte("x"))
		return errors.Is(err, errNotReady)
	})
}

func TestFIFOOnly(t *testing.T) {
	dir := t.TempDir()
	fifoPath := filepath.Join(dir, "fifo")
	regular := filepath.Join(dir, "regular")
	link := filepath.Join(dir, "link")
	socket := filepath.Join(dir, "s")
	for _, err := range []error{
		syscall.Mkfifo(fifoPath, 0o600),
		os.WriteFile(regular, []byte("content"), 0o600),
		os.Symlink(fifoPath, link),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for path, want := range map[string]string{
		regular: "not a FIFO", link: "a symbolic link, not a FIFO", socket: "not a FIFO", dir: "is a directory",
		filepath.Join(regular, "x"): "not a directory",
	} {
		if _, err := openFIFO(path, long); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", path, err, want)
		}
	}
	if b, _ := os.ReadFile(regular); string(b) != "content" {
		t.Errorf("the regular file holds %q", b)
	}
}

// TestFIFOFull fills the FIFO: writes go on without blocking, are delivered once there is room, each whole, and fail when
// nobody makes room.
func TestFIFOFull(t *testing.T) {
	r := newReader(t)
	f, err := openFIFO(r.path, long)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	command := bytes.Repeat([]byte("c"), 4096)
	written := 0
	for err == nil {
		if _, err = f.Write(command); err == nil {
			written++
		}
	}
	if !errors.Is(err, syscall.EAGAIN) || written <= maxWaiting {
		t.Errorf("after %d writes: %v", written, err)
	}

	r = newReader(t)
	f, err = openFIFO(r.path, long)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	total := 0
	for f.backlog() < 3 {
		write(t, f, string(command))
		total += len(command)
	}
	got := 0
	until(t, "all is delivered", func() bool {
		n := len(r.bytes(t))
		got += n
		return n%len(command) == 0 && got == total
	})
}

func TestFIFOReaderGone(t *testing.T) {
	r := newReader(t)
	f, err := openFIFO(r.path, long)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	write(t, f, "x")
	r.close()
	for range 2 {
		if _, err := f.Write([]byte("z")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("error %v", err)
		}
	}
}
