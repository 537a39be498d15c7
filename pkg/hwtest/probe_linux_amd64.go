package hwtest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// breakpointWrite is HW_BREAKPOINT_W of linux/hw_breakpoint.h.
const breakpointWrite = 2

// probe opens a watchpoint on a word of this thread, writes the word three times and expects a count of three
// (perf_event_open(2), PERF_TYPE_BREAKPOINT).
func probe() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	word := new(atomic.Uint64)
	attr := unix.PerfEventAttr{
		Type:    unix.PERF_TYPE_BREAKPOINT,
		Bp_type: breakpointWrite,
		Ext1:    uint64(uintptr(unsafe.Pointer(word))), // bp_addr
		Ext2:    8,                                     // bp_len
		Bits:    unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv,
	}
	attr.Size = uint32(unsafe.Sizeof(attr))
	fd, err := unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	switch {
	case errors.Is(err, unix.ENOSPC):
		return fmt.Errorf("open one: all slots are taken: %w", err)
	case err != nil:
		return fmt.Errorf("open one: %w", err)
	}
	defer unix.Close(fd)
	for i := range uint64(3) {
		word.Store(i)
	}
	var count [8]byte
	if _, err := unix.Read(fd, count[:]); err != nil {
		return fmt.Errorf("read its count: %w", err)
	}
	if n := binary.NativeEndian.Uint64(count[:]); n != 3 {
		return fmt.Errorf("one that was hit 3 times counted %d", n)
	}
	return nil
}

// lock takes the machine's lock for t (flock(2)), and gives it back when t ends.
func lock(t testing.TB) {
	t.Helper()
	path := filepath.Join(os.TempDir(), "xw-hwtest.lock")
	file, err := openLock(path)
	if err != nil {
		t.Fatalf("open the lock for hardware tests: %v", err)
	}
	for n := 0; ; n++ {
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			break
		}
		if n == 100 {
			t.Logf("waiting for another test that uses watchpoints (%s)", path)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil {
		t.Fatalf("lock %s: %v", path, err)
	}
	t.Cleanup(func() { file.Close() })
}

// openLock opens the lock file for reading, which suffices for flock: all users of the machine share it, whoever made
// it.
func openLock(path string) (*os.File, error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		made, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err == nil || !errors.Is(err, os.ErrExist) {
			return made, err
		}
		return os.Open(path)
	}
	return file, err
}
