//go:build amd64

package watch

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// errDeaf says that this machine takes watchpoints and never fires them, as some hypervisors do.
var errDeaf = errors.New("a watchpoint on a word of xw-open's own did not fire: this machine accepts hardware watchpoints and never triggers them")

// selfTest watches a word of this process, stores to it once and looks whether the kernel counted that.
func selfTest() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	page, err := unix.Mmap(-1, 0, unix.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return fmt.Errorf("map a page for the self test: %w", err)
	}
	defer unix.Munmap(page)
	word := (*uint64)(unsafe.Pointer(&page[0]))
	slot := Slot{Addr: uint64(uintptr(unsafe.Pointer(word))), Len: 8, Access: "w"}
	e, err := openEvent(attrs{}.breakpoint(slot, 0), 0, -1, nil)
	if err != nil {
		return ownWordError(slot, err)
	}
	defer e.close()
	atomic.StoreUint64(word, 1)
	count, _, err := e.count(false)
	if err != nil {
		return err
	}
	if count != 1 {
		return errDeaf
	}
	return nil
}

// ownWordError says why no watchpoint could be opened on a word of xw-open itself.
func ownWordError(slot Slot, err error) error {
	s := &Set{cfg: Config{Slots: []Slot{slot}}}
	return fmt.Errorf("try a watchpoint on a word of xw-open's own: %w", s.openError(0, unix.Gettid(), -1, err))
}
