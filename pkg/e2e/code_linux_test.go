//go:build amd64

package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"xw/pkg/hwtest"
)

// run watches counter in a command from its first instruction to its end.
func run(t *testing.T, m mode, command ...string) *seen {
	t.Helper()
	args := append(slices.Clone(m.args), "--watch", "counter", "--")
	return attachBy(t, exec.Command("xw-open", append(args, command...)...)).wait()
}

// siteList is what the sites of the only watch say, in order.
func (s *seen) siteList(f func(site) string) (list []string) {
	for _, at := range s.Watches[0].Sites {
		list = append(list, f(at))
	}
	slices.Sort(list)
	return list
}

// TestLibrariesAtOneAddress loads two libraries one after the other at the same address, and the first one again.
func TestLibrariesAtOneAddress(t *testing.T) {
	eachMode(t, func(t *testing.T, m mode) {
		library := func(name, body string) string {
			return hwtest.Compile(t, "cc", "lib.c", fmt.Sprintf("__attribute__((noinline)) static void %s(volatile long *p) { %s; }\n"+
				"void put(volatile long *p) { %s(p); }\n", name, body, name), "-O1", "-shared", "-fPIC")
		}
		program := hwtest.BuildC(t, `
#include <dlfcn.h>
volatile long counter;
int main(int argc, char **argv)
{
	void (*first)(volatile long *) = 0;
	for (int i = 1; i < argc; i++) {
		void *lib = dlopen(argv[i], RTLD_NOW);
		void (*put)(volatile long *) = (void (*)(volatile long *))dlsym(lib, "put");
		if (first && put != first)
			return 7;
		first = put;
		for (int k = 0; k < 2 + i; k++)
			put(&counter);
		dlclose(lib);
	}
	return 0;
}`, "-ldl")
		a, b := library("add", "*p += 3"), library("take", "*p -= 3")
		s := run(t, m, program, a, b, a)
		s.wantComplete()
		s.wantHits(0, 12)
		got := s.siteList(func(at site) string { return fmt.Sprint(at.Hits, " ", at.Func, " ", at.Insn) })
		if want := []string{"4 take mov qword ptr [rdi], rax", "8 add mov qword ptr [rdi], rax"}; !slices.Equal(got, want) {
			t.Errorf("sites %q, want %q", got, want)
		}
	})
}

// TestCodeInNewMemory executes code that the program has written to memory of its own: at the start of a mapping, before
// which there is nothing, near it, and farther away.
func TestCodeInNewMemory(t *testing.T) {
	hwtest.Require(t)
	for _, m := range modes() {
		t.Run(m.name, func(t *testing.T) {
			for _, offset := range []string{"0", "1", "15", "16", "40", "100", "4080"} {
				target := hwtest.Start(t, hwtest.BuildC(t, `
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
volatile long counter;
int main(int argc, char **argv)
{
	static const unsigned char code[] = {0x48, 0xff, 0x07, 0xc3}; // inc qword ptr [rdi]; ret
	char *pages = mmap(0, 3 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *at = pages + 4096 + atoi(argv[1]);
	mprotect(pages + 4096, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
	memset(pages + 4096, 0xcc, 4096);
	memcpy(at, code, sizeof code);
	printf("ready\n");
	fflush(stdout);
	while (getchar() != EOF) {
		for (int i = 0; i < 10; i++)
			((void (*)(volatile long *))at)(&counter);
		printf("done\n");
		fflush(stdout);
	}
}`), offset)
				s := attach(t, target.PID, append(slices.Clone(m.args), "--watch", "counter")...)
				target.Send("")
				target.Line()
				seen := s.stop()
				seen.wantHits(0, 10)
				got := seen.siteList(func(at site) string { return fmt.Sprint(at.Op, " ", at.Insn, " ", at.Accesses != nil) })
				if want := []string{"readwrite inc qword ptr [rdi] true"}; !slices.Equal(got, want) {
					t.Errorf("at offset %s: sites %q, want %q", offset, got, want)
				}
			}
		})
	}
}

// beside has code written at run time store to v, and a word behind it in the same page read as often as it is told.
const beside = `
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

volatile unsigned long v;
int main(void)
{
	unsigned char *page = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned char code[] = { 0x48, 0xff, 0x07, 0xc3 }; /* incq (%rdi); ret */
	memcpy(page + 256, code, sizeof code);
	volatile unsigned long *near = (void *)(page + 264), *far = (void *)(page + 2048);
	printf("ready v=%p near=%p far=%p\n", (void *)&v, (void *)near, (void *)far); fflush(stdout);
	char line[64];
	while (fgets(line, sizeof line, stdin)) {
		int stores, reads;
		sscanf(line, "%d %d", &stores, &reads);
		for (int i = 0; i < stores; i++) ((void (*)(volatile unsigned long *))(page + 256))(&v);
		for (int i = 0; i < reads; i++) { (void)*near; (void)*far; }
		printf("done\n"); fflush(stdout);
	}
}
`

// TestDataBesideCode watches a word beside the code that stores to another one: that the code is looked at is no hit of the word's.
func TestDataBesideCode(t *testing.T) {
	eachMode(t, func(t *testing.T, m mode) {
		const stores, reads = 1000, 7
		target := hwtest.Start(t, hwtest.BuildC(t, beside))
		watch := func(name, access string) string { return fmt.Sprintf("%s=%#x:8:%s", name, target.Uint(name), access) }
		s := attach(t, target.PID, append(m.args, "--watch", watch("v", "w"), "--watch", watch("near", "rw"), "--watch", watch("far", "rw"))...)
		target.Send(fmt.Sprintf("%d %d", stores, reads))
		target.Line()
		seen := s.stop()
		seen.wantHits(0, stores)
		seen.wantHits(1, reads)
		seen.wantHits(2, reads)
		seen.wantComplete()
	})
}

// TestLibraryWatchedLater starts a program with a watch of its own, and one of a library's that makes hits of reads and can only be
// opened when the library is there: both have their values, and none has hits of xw's own reading.
func TestLibraryWatchedLater(t *testing.T) {
	eachMode(t, func(t *testing.T, m mode) {
		const times = 50
		library := hwtest.Compile(t, "cc", "lib.c", "volatile long state = 3; long look(void) { return state; }", "-O1", "-shared", "-fPIC")
		program := hwtest.BuildC(t, fmt.Sprintf(`
volatile long counter;
extern long look(void);
int main(void)
{
	for (int i = 0; i < %d; i++)
		counter += look();
}
`, times), library, "-Wl,-rpath,"+filepath.Dir(library))
		args := append(slices.Clone(m.args), "--watch", "counter", "--watch", filepath.Base(library)+"!state:8:rw", "--", program)
		seen := attachBy(t, exec.Command("xw-open", args...)).wait()
		seen.wantComplete()
		seen.wantHits(0, times)
		if hits := seen.Watches[1].Hits; hits < times {
			t.Errorf("%d hits of the library's variable, at least %d are its reads", hits, times)
		}
		if !m.bpf() {
			return
		}
		if values := seen.values(0); values[times-1] != 3*times {
			t.Errorf("the last value is %d, want %d", values[times-1], 3*times)
		}
		for _, v := range seen.values(1) {
			if v != 3 {
				t.Fatalf("value %d of the library's variable, want 3", v)
			}
		}
	})
}
