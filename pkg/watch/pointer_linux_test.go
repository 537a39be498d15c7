//go:build amd64

package watch_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"xw/pkg/hwtest"
	"xw/pkg/perfabi"
	"xw/pkg/watch"
)

// pointers stores what it is told to a pointer. Two pages of known bytes follow each other; after them one that cannot be read.
const pointers = `
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

volatile unsigned long pointer;
int main(void)
{
	char *pages = mmap(0, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(pages, 0x14, 4096);
	memset(pages + 4096, 0x15, 4096);
	memset(pages + 8192, 0x16, 4096);
	mprotect(pages + 8192, 4096, PROT_NONE);
	printf("ready pointer=%p pages=%p\n", (void *)&pointer, pages); fflush(stdout);
	char line[64];
	unsigned long v;
	while (fgets(line, sizeof line, stdin) && sscanf(line, "%lx", &v) == 1) {
		pointer = v;
		printf("done %lx\n", v); fflush(stdout);
	}
}
`

// TestWherePointersLead stores addresses to a pointer whose leaf is watched for reads, so that what stands there is read through
// the kernel's direct map. What the program may not read, and what is not in one page, is not read.
func TestWherePointersLead(t *testing.T) {
	hwtest.Require(t)
	hwtest.RequireRoot(t)
	target := hwtest.Start(t, hwtest.BuildC(t, pointers))
	pages := target.Uint("pages")
	s := open(t, target.PID, watch.Config{Scope: "cpu", Values: "bpf", Kernel: "auto", Slots: []watch.Slot{
		{Addr: target.Uint("pointer"), Len: 8, Access: "w", Wake: true, Child: &watch.Child{Len: 8, Access: "rw"}},
		{Watch: 1, Len: 8, Access: "rw"},
	}})
	const a, b = 0x1414141414141414, 0x1515151515151515
	stores := []struct {
		name    string
		pointer uint64
		want    uint64
		ok      bool
	}{
		{"first page", pages, a, true},
		{"unaligned in it", pages + 3, a, true},
		{"its end", pages + 4088, a, true},
		{"across its end", pages + 4092, 0, false},
		{"across its end by one", pages + 4089, 0, false},
		{"second page", pages + 4096, b, true},
		{"not to be read", pages + 8192, 0, false},
		{"not mapped", 0x1000, 0, false},
		{"null", 0, 0, false},
		{"the kernel's interrupt descriptors", 0xfffffe0000000000, 0, false},
		{"the kernel's code", 0xffffffff81000000, 0, false},
		{"the kernel's direct map", 0xffff888000000000, 0, false},
		{"the last word", 1<<64 - 8, 0, false},
		{"not canonical", 1 << 47, 0, false},
		{"the last user page", 1<<47 - 4096, 0, false},
		{"second page again", pages + 4100, b, true},
	}
	for _, store := range stores {
		target.Send(fmt.Sprintf("%x", store.pointer))
		target.Line()
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	var layout perfabi.Layout
	for _, src := range s.Sources() {
		if src.Role == "output" {
			layout.SampleType = src.SampleType
		}
	}
	n := 0
	_, err := s.Drain(func() bool { return true }, func(_ int, rec []byte) {
		if perfabi.PeekType(rec) != perfabi.RecordSample {
			return
		}
		var sample perfabi.Sample
		var hit perfabi.Hit
		if err := errors.Join(sample.Decode(rec, &layout), hit.Parse(sample.Raw)); err != nil {
			t.Fatal(err)
		}
		store := stores[min(n, len(stores)-1)]
		n++
		left := binary.LittleEndian.Uint64(sample.Raw[perfabi.HitChildOff:])
		ok := hit.Flags&perfabi.HitChildValid != 0
		switch {
		case hit.Value != store.pointer:
			t.Errorf("%s: stores %#x, want %#x", store.name, hit.Value, store.pointer)
		case ok != store.ok, ok && hit.Child != store.want:
			t.Errorf("%s: %#x leads to %#x, valid %v; want %#x, %v", store.name, store.pointer, hit.Child, ok, store.want, store.ok)
		case !ok && left != 0:
			t.Errorf("%s: bytes that are not valid are %#x", store.name, left)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if n != len(stores) {
		t.Errorf("%d stores, %d hits", len(stores), n)
	}
}
