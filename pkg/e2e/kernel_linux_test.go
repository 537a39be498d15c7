//go:build amd64

package e2e

import (
	"slices"
	"strings"
	"testing"

	"xw/pkg/hwtest"
	"xw/pkg/wire"
)

// TestKernelStores has the kernel write the variable for the program by read(2) and recv(2): as many hits as a counter
// of perf sees, all made by the kernel, and with BPF the system call and the place of the call.
func TestKernelStores(t *testing.T) {
	eachMode(t, func(t *testing.T, m mode) {
		for _, call := range []string{"read", "recv"} {
			const times = 10
			a := startActor(t)
			s := attach(t, a.PID, append(m.args, "--watch", "counter", "--kernel", "on")...)
			c := count(t, a.PID, a.Uint("counter"), 8, "w")
			a.do(call, times)
			want := c.stop()
			seen := s.stop()
			seen.wantHits(0, want)
			seen.wantComplete()
			if want < times {
				t.Errorf("%s: %d calls, perf counted %d hits", call, times, want)
			}
			nr, place := uint64(0), uint64(0) // read is system call 0
			if call == "recv" {
				nr = 45 // recvfrom
			}
			last := []uint64{}
			seen.samples(func(h *wire.Sample) {
				if h.Origin != 1 {
					t.Fatalf("%s: a hit with origin %d", call, h.Origin)
				}
				if place == 0 {
					place = h.UserIP.V
				}
				if !h.UserIP.OK || h.UserIP.V != place || m.bpf() && (!h.Syscall.OK || h.Syscall.V != nr) {
					t.Fatalf("%s: call site %+v, system call %+v", call, h.UserIP, h.Syscall)
				}
				if m.bpf() {
					last = append(last, h.Value.V)
				}
			})
			for i := uint64(1); m.bpf() && i <= times; i++ {
				if !slices.Contains(last, i) {
					t.Errorf("%s: no hit has the value %d: %v", call, i, last)
				}
			}
			for _, site := range seen.Watches[0].Sites {
				if site.User == nil || site.Syscall == "" && m.bpf() {
					t.Errorf("%s: site %+v", call, site)
				}
			}
		}
	})
}

// TestKernelLoads has the kernel read the variable, by write(2).
func TestKernelLoads(t *testing.T) {
	eachMode(t, func(t *testing.T, m mode) {
		const times = 10
		a := startActor(t)
		a.do("store", 77)
		s := attach(t, a.PID, append(m.args, "--watch", "counter:rw", "--kernel", "on")...)
		c := count(t, a.PID, a.Uint("counter"), 8, "rw")
		a.do("write", times)
		want := c.stop()
		seen := s.stop()
		seen.wantHits(0, want)
		seen.wantComplete()
		if want < times {
			t.Errorf("%d calls, perf counted %d hits", times, want)
		}
		if m.bpf() {
			for _, v := range seen.values(0) {
				if v != 77 {
					t.Fatalf("value %d, want 77", v)
				}
			}
		}
	})
}

// TestKernelOff sees nothing that the kernel does.
func TestKernelOff(t *testing.T) {
	eachMode(t, func(t *testing.T, m mode) {
		a := startActor(t)
		s := attach(t, a.PID, append(m.args, "--watch", "counter", "--kernel", "off")...)
		a.do("read", 10)
		a.do("store", 3)
		seen := s.stop()
		seen.wantHits(0, 3)
		seen.wantComplete()
	})
}

// TestChangedFromOutside writes the variable by process_vm_writev and by another mapping, which makes no hit.
func TestChangedFromOutside(t *testing.T) {
	hwtest.Require(t)
	hwtest.RequireRoot(t)
	a := startActor(t)
	s := attach(t, a.PID, "--watch", "counter")
	a.do("store", 3)
	poke(t, a.PID, a.Uint("counter"), 0x1234)
	seen := s.stop()
	seen.wantHits(0, 3)
	if changed := seen.Watches[0].ChangedWithoutHit; changed == nil || !*changed || seen.gapsOf("changed_without_hit") != 1 {
		t.Errorf("changed_without_hit %v, gaps %v", changed, seen.Gaps)
	}
}

// oldTime has the kernel store the time by the 32-bit system call of a 64-bit program.
const oldTime = `
#include <stdio.h>

volatile unsigned long counter;
int main(void)
{
	printf("ready counter=%p\n", (void *)&counter); fflush(stdout);
	char line[64];
	while (fgets(line, sizeof line, stdin)) {
		long result;
		__asm__ volatile ("int $0x80" : "=a"(result) : "a"(13), "b"(&counter) : "memory", "r8", "r9", "r10", "r11");
		printf("done result=%d counter=%lu\n", result > 0, counter); fflush(stdout);
	}
}
`

// TestSyscallOfOtherWidth makes 32-bit system calls in a 64-bit program: their numbers are those of other calls there, and are not
// told. The place of the call is.
func TestSyscallOfOtherWidth(t *testing.T) {
	hwtest.Require(t)
	hwtest.RequireRoot(t)
	target := hwtest.Start(t, hwtest.BuildC(t, oldTime, "-no-pie"))
	s := attach(t, target.PID, "--watch", "counter", "--kernel", "on", "--values", "bpf")
	target.Send("")
	if line := target.Line(); !strings.HasPrefix(line, "done result=1 ") {
		t.Skipf("this kernel has no 32-bit system calls: %s", line)
	}
	seen := s.stop()
	seen.wantComplete()
	n := 0
	seen.samples(func(h *wire.Sample) {
		n++
		if h.Origin != 1 || h.Syscall.OK || !h.UserIP.OK {
			t.Errorf("origin %d, system call %+v, call site %+v", h.Origin, h.Syscall, h.UserIP)
		}
	})
	if n == 0 {
		t.Error("no hit")
	}
}
