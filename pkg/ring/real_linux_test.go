package ring

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"xw/pkg/perfabi"
)

// nameRing is the ring of a software event that records each new name of the calling OS thread. The test keeps that
// thread to itself; it ends with the test, since its name is spoilt.
func nameRing(t *testing.T, pages int) (c *Cursor, l perfabi.Layout) {
	t.Helper()
	runtime.LockOSThread()
	l = perfabi.Layout{SampleType: perfabi.SampleIdentifier | perfabi.SampleTID | perfabi.SampleTime}
	attr := unix.PerfEventAttr{
		Type: perfabi.TypeSoftware, Config: perfabi.SWDummy, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})), Sample_type: l.SampleType,
		Bits:    perfabi.AttrComm | perfabi.AttrSampleIDAll | perfabi.AttrExcludeKernel | perfabi.AttrExcludeHV | perfabi.AttrUseClockID,
		Clockid: unix.CLOCK_MONOTONIC,
	}
	fd, err := unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
		t.Skipf("perf_event_open of a software event on this thread: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	page := os.Getpagesize()
	mem, err := unix.Mmap(fd, 0, (1+pages)*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		unix.Close(fd)
		t.Skipf("map a perf ring: %v", err)
	}
	t.Cleanup(func() {
		unix.Munmap(mem)
		unix.Close(fd)
	})
	c, err = New(mem[:page], mem[page:])
	if err != nil {
		t.Fatal(err)
	}
	return c, l
}

func rename(t *testing.T, name string) {
	t.Helper()
	b := append([]byte(name), 0)
	if err := unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&b[0])), 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	runtime.KeepAlive(b)
}

// TestRealRing has the kernel write 2000 records of known content through a ring of one page, where they wrap.
func TestRealRing(t *testing.T) {
	c, l := nameRing(t, 1)
	var got []string
	last := uint64(0)
	for i := range 2000 {
		rename(t, fmt.Sprintf("n%0*d", 1+i%13, i%10))
		if i%7 != 0 && i != 1999 {
			continue
		}
		for c.Next() {
			var rec perfabi.Comm
			if err := rec.Decode(c.Record(), &l); err != nil {
				t.Errorf("record %d: %v", len(got), err)
			}
			if rec.SampleID.Time < last || int(rec.TID) != unix.Gettid() || int(rec.SampleID.TID) != unix.Gettid() {
				t.Errorf("record %d: %+v", len(got), rec)
			}
			last = rec.SampleID.Time
			got = append(got, string(rec.Comm))
		}
		c.Commit()
		if err := c.Err(); err != nil {
			t.Error(err)
		}
	}
	if len(got) != 2000 {
		t.Fatalf("%d records of 2000", len(got))
	}
	for i, name := range got {
		if want := fmt.Sprintf("n%0*d", 1+i%13, i%10); name != want {
			t.Errorf("record %d: %q, want %q", i, name, want)
		}
	}
}

// TestRealOverflow writes more than the ring holds: what was stored and what the lost record counts is all of it.
func TestRealOverflow(t *testing.T) {
	c, l := nameRing(t, 1)
	const total = 1000
	for i := range total {
		rename(t, fmt.Sprintf("n%d", i))
	}
	stored := uint64(0)
	for c.Next() {
		stored++
	}
	c.Commit()
	rename(t, "after")
	var lost perfabi.Lost
	names := 0
	for c.Next() {
		rec := c.Record()
		switch perfabi.PeekType(rec) {
		case perfabi.RecordLost:
			if err := lost.Decode(rec, &l); err != nil {
				t.Error(err)
			}
		case perfabi.RecordComm:
			names++
		default:
			t.Errorf("record of type %d", perfabi.PeekType(rec))
		}
	}
	c.Commit()
	if stored == 0 || stored == total || stored+lost.Lost != total || names != 1 {
		t.Errorf("%d stored, %d lost, %d after it; want %d in all and 1", stored, lost.Lost, names, total)
	}
	if id, time := lost.SampleID.Identifier, lost.SampleID.Time; id != lost.Event || time == 0 {
		t.Errorf("lost record %+v", lost)
	}
}
