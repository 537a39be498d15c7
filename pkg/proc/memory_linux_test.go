package proc_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"xw/pkg/proc"
)

const mapSource = `
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int argc, char **argv) {
	for (int i = 1; i < argc; i++) {
		int fd = open(argv[i], O_RDWR);
		printf("%p ", mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
	}
	char *secret = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(secret, 9, 4096);
	mprotect(secret, 4096, PROT_NONE);
	char *two = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(two, 7, 8192);
	munmap(two + 4096, 4096);
	printf("%p %p\n", two, secret);
	fflush(stdout);
	return getchar() == 'x';
}`

func TestMapsAndMemory(t *testing.T) {
	dir := t.TempDir()
	exe := build(t, filepath.Join(dir, "maps"), mapSource)
	names := []string{"with space", "new\nline", `back\040slash`, "plain (deleted)"}
	args := []string{}
	for _, name := range names {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, slices.Repeat([]byte(name[:1]), 4096), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, path)
	}
	c := start(t, exec.Command(exe, args...))
	p := open(t, c.pid())
	maps, err := p.Maps()
	if err != nil {
		t.Fatal(err)
	}
	addrs := make([]uint64, 0, len(args)+2)
	for _, word := range strings.Fields(c.line) {
		var addr uint64
		if _, err := fmt.Sscanf(word, "0x%x", &addr); err != nil {
			t.Fatal(err)
		}
		addrs = append(addrs, addr)
	}
	for i, path := range args {
		m := mappingOf(t, maps, addrs[i])
		if m.Path != path || m.Deleted || !m.Shared || m.Prot != proc.ProtRead|proc.ProtWrite || m.Offset != 0 || !m.File() {
			t.Errorf("mapping of %q: %+v", path, m)
		}
		var st syscall.Stat_t
		if err := syscall.Stat(path, &st); err != nil || st.Dev != m.Dev || st.Ino != m.Inode {
			t.Errorf("%q: device %x inode %d, want %x %d (%v)", path, m.Dev, m.Inode, st.Dev, st.Ino, err)
		}
		f, err := p.OpenMapped(m)
		if err != nil {
			t.Fatal(err)
		}
		var b [1]byte
		if _, err := f.ReadAt(b[:], 0); err != nil || b[0] != filepath.Base(path)[0] {
			t.Errorf("OpenMapped(%q) reads %q, %v", path, b, err)
		}
		f.Close()
	}
	two, secret := addrs[len(args)], addrs[len(args)+1]
	m := mappingOf(t, maps, two)
	if m.Path != "" || m.Shared || m.File() {
		t.Errorf("anonymous mapping: %+v", m)
	}
	if _, err := p.OpenMapped(m); !errors.Is(err, proc.ErrNotFile) {
		t.Errorf("OpenMapped of anonymous memory: %v", err)
	}
	for _, special := range []string{"[heap]", "[stack]", "[vdso]"} {
		if !slices.ContainsFunc(maps, func(m proc.Mapping) bool { return m.Path == special && !m.File() }) {
			t.Errorf("no %s among the mappings", special)
		}
	}
	wantRead(t, p, two+4000, 96, 96, 7)
	wantRead(t, p, two+4000, 200, 96, 7)
	wantRead(t, p, secret, 8, 8, 9)
	wantRead(t, p, 0, 8, 0, 0)
	wantRead(t, p, 0xffffffff81000000, 8, 0, 0)
	if n, err := p.ReadAt(nil, int64(two)); n != 0 || err != nil {
		t.Errorf("ReadAt of nothing = %d, %v", n, err)
	}
}

// wantRead reads size bytes and wants n of the given value, and an error matching EFAULT if that is not all.
func wantRead(t *testing.T, p *proc.Process, addr uint64, size, n int, value byte) {
	t.Helper()
	b := make([]byte, size)
	got, err := p.ReadAt(b, int64(addr))
	if got != n || (err == nil) != (n == size) {
		t.Fatalf("ReadAt(0x%x, %d bytes) = %d, %v, want %d", addr, size, got, err, n)
	}
	if err != nil && (!errors.Is(err, syscall.EFAULT) || errors.Is(err, fs.ErrPermission)) {
		t.Errorf("ReadAt(0x%x): %v, want EFAULT", addr, err)
	}
	if slices.ContainsFunc(b[:n], func(x byte) bool { return x != value }) {
		t.Errorf("ReadAt(0x%x) = %v", addr, b[:n])
	}
}

func TestTasks(t *testing.T) {
	const threads = 20
	exe := build(t, filepath.Join(t.TempDir(), "many"), fmt.Sprintf(`
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>
static pthread_barrier_t named;
static void *body(void *arg) {
	char name[16];
	snprintf(name, sizeof name, "w) R %%d", gettid());
	prctl(PR_SET_NAME, name);
	pthread_barrier_wait(&named);
	pause();
	return 0;
}
int main(void) {
	pthread_t t;
	struct timespec before, after;
	pthread_barrier_init(&named, 0, %[1]d + 1);
	clock_gettime(CLOCK_MONOTONIC, &before);
	for (int i = 0; i < %[1]d; i++) pthread_create(&t, 0, body, 0);
	pthread_barrier_wait(&named);
	clock_gettime(CLOCK_MONOTONIC, &after);
	printf("%%ld %%ld\n", before.tv_sec * 1000000000 + before.tv_nsec, after.tv_sec * 1000000000 + after.tv_nsec);
	fflush(stdout);
	return getchar() == 'x';
}`, threads))
	c := start(t, exec.Command(exe))
	var before, after uint64
	if _, err := fmt.Sscan(c.line, &before, &after); err != nil {
		t.Fatal(err)
	}
	p := open(t, c.pid())
	tasks, err := p.Tasks()
	if err != nil || len(tasks) != threads+1 {
		t.Fatalf("Tasks = %d, %v, want %d", len(tasks), err, threads+1)
	}
	const tick = 10_000_000
	for _, task := range tasks {
		if task.TID == c.pid() {
			if task.Birth != p.Birth() || task.Start != p.Start() {
				t.Errorf("leader born %d, process %d", task.Birth, p.Birth())
			}
			continue
		}
		if want := fmt.Sprintf("w) R %d", task.TID); task.Comm != want {
			t.Errorf("thread %d is named %q, want %q", task.TID, task.Comm, want)
		}
		if task.Birth+2*tick < before || task.Birth > after {
			t.Errorf("thread %d born %d, created within %d-%d", task.TID, task.Birth, before, after)
		}
		if q := open(t, task.TID); q.PID() != c.pid() || q.GivenTID() != task.TID {
			t.Errorf("Open(%d): PID %d, GivenTID %d", task.TID, q.PID(), q.GivenTID())
		}
	}
}

func TestOthers(t *testing.T) {
	const fixed = 0x7654_0000_0000
	exe := build(t, filepath.Join(t.TempDir(), "fixed"), fmt.Sprintf(`
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int argc, char **argv) {
	mmap((void *)%#x, 4096, atoi(argv[1]), MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	if (argv[2][0] == 'v' && vfork()) return 0;
	printf("%%d\n", getppid());
	fflush(stdout);
	getchar();
	_exit(0);
}`, uint64(fixed)))
	const readWrite, readOnly = "3", "1"
	// The parent of a vfork is held until its child ends, and both have the same memory.
	vfork := start(t, exec.Command(exe, readWrite, "vfork"))
	p := open(t, vfork.pid())
	want := func(n int, prot uint32) {
		t.Helper()
		others, _, err := p.Others([]proc.Range{{Start: fixed, End: fixed + 8, Prot: prot}})
		if err != nil || others != n {
			t.Errorf("Others = %d, %v, want %d", others, err, n)
		}
	}
	want(0, proc.ProtWrite)
	start(t, exec.Command(exe, readOnly, "plain"))
	want(0, proc.ProtWrite)
	want(1, proc.ProtRead)
	start(t, exec.Command(exe, readWrite, "plain"))
	want(1, proc.ProtWrite)
	want(2, proc.ProtRead)
}

func Test32Bit(t *testing.T) {
	exe := build(t, filepath.Join(t.TempDir(), "small"), strings.ReplaceAll(counterSource, "unsigned long", "unsigned long long"), "-m32")
	c := start(t, exec.Command(exe))
	p := open(t, c.pid())
	if p.Bits() != 32 {
		t.Errorf("Bits = %d", p.Bits())
	}
	addr := counterAddr(t, c)
	wantCounter(t, p, addr)
	wantProgramHeader(t, p, exe)
}

func TestAuxv(t *testing.T) {
	exe := build(t, filepath.Join(t.TempDir(), "prog"), counterSource)
	c := start(t, exec.Command(exe))
	wantProgramHeader(t, open(t, c.pid()), exe)
}

// wantProgramHeader checks that AT_PHDR lies in the program's first mapping.
func wantProgramHeader(t *testing.T, p *proc.Process, exe string) {
	t.Helper()
	auxv, err := p.Auxv()
	if err != nil {
		t.Fatal(err)
	}
	maps, err := p.Maps()
	if err != nil {
		t.Fatal(err)
	}
	const atPhdr, atPagesz = 3, 6
	if m := mappingOf(t, maps, auxv[atPhdr]); m.Path != exe || m.Offset != 0 || auxv[atPagesz] != 4096 {
		t.Errorf("AT_PHDR 0x%x in %+v, AT_PAGESZ %d", auxv[atPhdr], m, auxv[atPagesz])
	}
}
