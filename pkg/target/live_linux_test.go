package target_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"xw/pkg/hwtest"
	"xw/pkg/proc"
	"xw/pkg/target"
	"xw/pkg/wire"
)

func open(t *testing.T, p *hwtest.Target) *proc.Process {
	t.Helper()
	process, err := proc.Open(p.PID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { process.Close() })
	return process
}

func resolve(p *proc.Process, watches ...string) (*target.Plan, error) {
	var specs []target.Spec
	for _, w := range watches {
		spec, err := target.Parse(w)
		if err != nil {
			return nil, err
		}
		specs = append(specs, spec)
	}
	return target.Resolve(p, specs, target.Options{})
}

// want is what one watch should resolve to.
type want struct {
	watch string
	addr  uint64
	len   uint64
	place string   // "" is any
	notes []string // part of each note, in order
}

func check(t *testing.T, p *proc.Process, w want) {
	t.Helper()
	plan, err := resolve(p, w.watch)
	if err != nil {
		t.Errorf("%s: %v", w.watch, err)
		return
	}
	got := plan.Watches[0]
	if !got.Addr.OK || got.Addr.V != w.addr || got.Len != w.len || w.place != "" && got.Place != w.place {
		t.Errorf("%s: %d bytes at 0x%x, place %q; want %d at 0x%x, %q", w.watch, got.Len, got.Addr.V, got.Place, w.len, w.addr, w.place)
	}
	covered := w.addr
	for _, s := range got.Slots {
		if s.Addr != covered || s.Len == 0 || s.Addr%s.Len != 0 {
			t.Errorf("%s: slots %+v do not cover 0x%x", w.watch, got.Slots, w.addr)
		}
		covered += s.Len
	}
	if covered != w.addr+w.len {
		t.Errorf("%s: slots %+v do not cover %d bytes", w.watch, got.Slots, w.len)
	}
	if len(plan.Notes) != len(w.notes) {
		t.Errorf("%s: notes %q, want %q", w.watch, plan.Notes, w.notes)
		return
	}
	for i, note := range w.notes {
		if !strings.Contains(plan.Notes[i], note) {
			t.Errorf("%s: note %q, want %q", w.watch, plan.Notes[i], note)
		}
	}
}

// refused wants an error with a text in it, and a hint.
func refused(t *testing.T, p *proc.Process, watch, text, hint string) error {
	t.Helper()
	plan, err := resolve(p, watch)
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("%s: %+v, %v, want an error with %q", watch, plan, err, text)
		return err
	}
	var h interface{ Hint() string }
	if hint != "" && (!errors.As(err, &h) || !strings.Contains(h.Hint(), hint)) {
		t.Errorf("%s: %v: no hint with %q", watch, err, hint)
	}
	return err
}

const cSource = `
#include <dlfcn.h>
#include <stdio.h>
#include <stdint.h>
#include <unistd.h>
extern char **environ;
volatile uint64_t counter = 1;
volatile uint32_t word = 1;
volatile char three[3] = {1};
volatile char table[4096] = {1};
volatile uint64_t zeroed;
volatile char big_bss[100000];
const uint64_t fixed = 7;
__thread uint64_t per_thread = 1;
static volatile uint64_t hidden = 1;
void callee(void) { word++; }
static volatile uint64_t *local(void) { static volatile uint64_t inner = 1; return &inner; }
int main(void) {
	printf("ready counter=%p word=%p three=%p table=%p zeroed=%p bss=%p fixed=%p hidden=%p environ=%p callee=%p inner=%p value=%#lx\n",
		&counter, &word, three, table, &zeroed, big_bss, &fixed, &hidden, &environ, callee, local(), (long)environ);
	fflush(stdout);
	getchar();
	return per_thread;
}`

func TestPrograms(t *testing.T) {
	builds := []struct {
		name  string
		flags []string
	}{
		{"PIE", []string{"-fPIE", "-pie"}},
		{"fixed address", []string{"-fno-pie", "-no-pie"}},
		{"static", []string{"-static"}},
		{"static-pie", []string{"-static-pie", "-fPIE"}},
		{"32-bit", []string{"-m32"}},
	}
	for _, b := range builds {
		t.Run(b.name, func(t *testing.T) {
			hwtest.RequireC(t, b.flags...)
			run := hwtest.Start(t, hwtest.BuildC(t, cSource, b.flags...))
			p := open(t, run)
			counter := run.Uint("counter")
			tests := []want{
				{"counter", counter, 8, "prog!counter", nil},
				{"prog!counter", counter, 8, "prog!counter", nil},
				{"counter+4", counter + 4, 4, "prog!counter+0x4", nil},
				{"counter+6:w", counter + 6, 2, "prog!counter+0x6", nil},
				{"counter+4:8", counter + 4, 8, "prog!counter+0x4", nil},
				{"counter-8", counter - 8, 8, "prog!counter-0x8", []string{"outside of prog!counter"}},
				{"word", run.Uint("word"), 4, "prog!word", nil},
				{"word:rw", run.Uint("word"), 4, "prog!word", nil},
				{"three", run.Uint("three"), 3, "prog!three", nil},
				{"table", run.Uint("table"), 8, "prog!table", []string{"4096 bytes, the first 8 are watched"}},
				{"table:16", run.Uint("table"), 16, "prog!table", nil},
				{"table+4090", run.Uint("table") + 4090, 6, "prog!table+0xffa", nil},
				{"zeroed", run.Uint("zeroed"), 8, "prog!zeroed", nil},
				{"big_bss+99992", run.Uint("bss") + 99992, 8, "prog!big_bss+0x18698", nil},
				{"fixed", run.Uint("fixed"), 8, "prog!fixed", []string{"without permission to write"}},
				{"fixed:rw", run.Uint("fixed"), 8, "prog!fixed", nil},
				{"hidden", run.Uint("hidden"), 8, "prog!hidden", nil},
				{"callee:x", run.Uint("callee"), 1, "prog!callee", nil},
				{"callee:1", run.Uint("callee"), 1, "prog!callee", []string{"without permission to write (r-x): :x watches code that is executed"}},
				{"counter:x", counter, 1, "prog!counter", []string{"without permission to execute"}},
				{fmt.Sprintf("0x%x", counter), counter, 8, "prog!counter", nil},
				{fmt.Sprintf("0x%x:2", counter+2), counter + 2, 2, "prog!counter+0x2", nil},
				{fmt.Sprintf("0x%x-8:1", counter+8), counter, 1, "prog!counter", nil},
				{fmt.Sprintf("0x%x:x", run.Uint("callee")+1), run.Uint("callee") + 1, 1, "prog!callee+0x1", nil},
				{"0x10000", 0x10000, 8, "0x10000", []string{"nothing is mapped at 0x10000"}},
			}
			for _, tt := range tests {
				check(t, p, tt)
			}
			refused(t, p, "per_thread", "thread-local symbol (TLS)", "0xADDR")
			refused(t, p, "cuonter", `unknown symbol "cuonter", nearest: prog!counter`, "--list")
			refused(t, p, "calee:x", `unknown symbol "calee", nearest: prog!callee`, "nm")
			refused(t, p, "prog!cuonter:4", `unknown symbol "cuonter" in prog, nearest: prog!counter`, "--list")
			refused(t, p, "progg!counter", `unknown module "progg", nearest: prog`, "maps")
			wantOffsets(t, p, run)
			wantInner(t, p, run.Uint("inner"))
		})
	}
}

// wantOffsets checks MODULE+OFFSET against nm, whose addresses it takes.
func wantOffsets(t *testing.T, p *proc.Process, run *hwtest.Target) {
	t.Helper()
	hwtest.RequireTool(t, "nm")
	out, err := exec.Command("nm", p.Exe().Path).Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		var elfAddr uint64
		var kind, name string
		if n, _ := fmt.Sscanf(line, "%x %s %s", &elfAddr, &kind, &name); n != 3 {
			continue
		}
		for symbol, value := range map[string]string{"counter": "counter", "hidden": "hidden", "big_bss": "bss"} {
			if name == symbol {
				addr := run.Uint(value)
				check(t, p, want{fmt.Sprintf("prog+0x%x", elfAddr), addr, 8, fmt.Sprintf("prog+0x%x", elfAddr), nil})
				check(t, p, want{fmt.Sprintf("%s+%d-4:4", p.Exe().Path, elfAddr+4), addr, 4, fmt.Sprintf("prog+0x%x", elfAddr), nil})
			}
		}
	}
}

// wantInner checks a static variable in a function: compilers add a number to its name.
func wantInner(t *testing.T, p *proc.Process, addr uint64) {
	t.Helper()
	listed, err := target.List(p, "prog!inner.*")
	if err != nil || len(listed) != 1 || listed[0].Addr != addr || listed[0].Size != 8 || listed[0].Module != "prog" {
		t.Fatalf("List = %+v, %v, want one of 8 bytes at 0x%x", listed, err, addr)
	}
	check(t, p, want{listed[0].Name, addr, 8, "prog!" + listed[0].Name, nil})
}

func TestCopyRelocation(t *testing.T) {
	run := hwtest.Start(t, hwtest.BuildC(t, cSource, "-fno-pie", "-no-pie"))
	p := open(t, run)
	environ := run.Uint("environ")
	for _, name := range []string{"environ", "__environ"} {
		check(t, p, want{name, environ, 8, "prog!" + name, []string{"is a copy of that of libc.so.6"}})
	}
	check(t, p, want{"prog!environ", environ, 8, "prog!environ", nil})
	plan, err := resolve(p, "libc.so.6!environ")
	if err != nil || len(plan.Notes) != 1 || !strings.Contains(plan.Notes[0], "is dead") || plan.Watches[0].Addr.V == environ {
		t.Errorf("the library's own: %+v, %v", plan, err)
	}
	listed, err := target.List(p, "!environ")
	if err != nil || len(listed) != 1 || listed[0].Module != "prog" || listed[0].Addr != environ {
		t.Errorf("List = %+v, %v, want the program's alone", listed, err)
	}
	// A PIE takes the library's variable where it is.
	run = hwtest.Start(t, hwtest.BuildC(t, cSource, "-fPIE", "-pie", "-mno-direct-extern-access"))
	check(t, open(t, run), want{"libc.so.6!environ", run.Uint("environ"), 8, "libc.so.6!environ", nil})
}

func TestSlots(t *testing.T) {
	run := hwtest.Start(t, hwtest.BuildC(t, cSource))
	p := open(t, run)
	for _, watches := range [][]string{
		{"counter", "word", "zeroed", "hidden"}, {"table:32"}, {"counter", "table:24"}, {"three", "counter", "word"},
		{"counter->8->0", "word"}, {"counter->8", "zeroed->8"}, {"counter->1->2->3:1"},
	} {
		if _, err := resolve(p, watches...); err != nil {
			t.Errorf("%q: %v", watches, err)
		}
	}
	tests := []struct {
		watches []string
		text    string
	}{
		{[]string{"counter", "word", "zeroed", "hidden", "three:1"}, "5 needed, x86 has 4 per thread: counter 1 (8 bytes at 0x"},
		{[]string{"table:33"}, "5 needed"},
		{[]string{"t=table:0x1000"}, "512 needed, x86 has 4 per thread: t 512 (4096 bytes at 0x"},
		{[]string{"counter->8->0", "zeroed->0"}, "5 needed, x86 has 4 per thread: counter->8->0 3 (3 levels), zeroed->0 2 (2 levels)"},
		{[]string{"counter->1->2->3->4"}, "5 needed"},
	}
	for _, tt := range tests {
		plan, err := resolve(p, tt.watches...)
		if !errors.As(err, new(*target.SlotsError)) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%q: %+v, %v, want %q", tt.watches, plan, err, tt.text)
		}
	}
	err := refused(t, p, "counter:r", "x86 has no read-only watchpoint", "rw watches")
	var usage interface{ Usage() bool }
	if !errors.As(err, &usage) || !usage.Usage() {
		t.Errorf("r: %v is no usage error", err)
	}
	spec, err := target.Parse("counter:r")
	if err != nil {
		t.Fatal(err)
	}
	plan, err := target.Resolve(p, []target.Spec{spec}, target.Options{AllowRead: true})
	if err != nil || plan.Watches[0].Access != "r" || len(plan.Notes) != 1 || !strings.Contains(plan.Notes[0], "no read-only watchpoint") {
		t.Errorf("r where it is allowed: %+v, %v", plan, err)
	}
}

func TestAddresses(t *testing.T) {
	p := open(t, hwtest.Start(t, hwtest.BuildC(t, cSource)))
	refused(t, p, "0xffffffff81000000", "in the kernel's half", "")
	refused(t, p, "0xffff800000000000", "in the kernel's half", "")
	refused(t, p, "0xfffffffffffffffc", "beyond the end of the address space", "")
	refused(t, p, "0x8000000000000000", "non-canonical", "")
	refused(t, p, "0x800000000000", "non-canonical", "")
	refused(t, p, "0x7fffffffffff:1", "above the highest address of a process, 0x7fffffffefff", "")
	check(t, p, want{"0x7fffffffeff8", 0x7fffffffeff8, 8, "0x7fffffffeff8", []string{"nothing is mapped"}})
	refused(t, p, "counter+4->8", "misaligned: a pointer that is followed lies at a multiple of 8", "")

	hwtest.RequireC(t, "-m32")
	p = open(t, hwtest.Start(t, hwtest.BuildC(t, cSource, "-m32")))
	refused(t, p, "0x100000000", "beyond the address space of a 32-bit process", "")
	refused(t, p, "0xfffffffc:8", "beyond the address space of a 32-bit process", "")
	if _, err := resolve(p, "counter+4->8"); err != nil {
		t.Errorf("a 32-bit pointer at a multiple of 4: %v", err)
	}
}

func TestChain(t *testing.T) {
	for _, flags := range [][]string{nil, {"-m32"}} {
		hwtest.RequireC(t, flags...)
		run := hwtest.Start(t, hwtest.BuildC(t, cSource, flags...))
		p := open(t, run)
		pointer := uint64(p.Bits() / 8)
		plan, err := resolve(p, "word", "hp=zeroed->0x10->-0x28:4:rw")
		if err != nil {
			t.Fatal(err)
		}
		zeroed := run.Uint("zeroed")
		level := func(id uint64, place, access, role string, length uint64) wire.Watch {
			return wire.Watch{ID: id, Name: "hp", Place: place, Len: length, Access: access, Role: role, Chain: wire.Some(0),
				Parent: wire.Some(id - 1), Slots: []wire.Slot{{Len: length}}}
		}
		header := level(1, "prog!zeroed", "w", "header", pointer)
		header.Addr, header.Parent, header.Slots[0].Addr = wire.Some(zeroed), wire.Opt{}, zeroed
		middle := level(2, "prog!zeroed->0x10", "w", "pointer", pointer)
		middle.Offset = 0x10
		leaf := level(3, "prog!zeroed->0x10->-0x28", "rw", "leaf", 4)
		leaf.Offset = -0x28
		for i, w := range []wire.Watch{header, middle, leaf} {
			if got := plan.Watches[i+1]; !reflect.DeepEqual(got, w) {
				t.Errorf("level %d\n got %+v\nwant %+v", i, got, w)
			}
		}
		if plan, err = resolve(p, "zeroed->8", "zeroed->8:8"); err != nil {
			t.Fatal(err)
		}
		for i, w := range plan.Watches {
			length := []uint64{pointer, pointer, pointer, 8}[i]
			role := []string{"pointer", "leaf"}[i%2]
			if w.Len != length || w.Role != role || w.Chain != wire.Some(uint64(i/2)) || w.ID != uint64(i) {
				t.Errorf("watch %d: %+v", i, w)
			}
		}
	}
}

func TestLibraries(t *testing.T) {
	dir := t.TempDir()
	lib := func(name, source string, flags ...string) string {
		path := filepath.Join(dir, name)
		made := hwtest.BuildC(t, source, append([]string{"-shared", "-fPIC"}, flags...)...)
		b, err := os.ReadFile(made)
		if err == nil {
			err = os.WriteFile(path, b, 0o700)
		}
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	const state = "static volatile long shared_state = 1; volatile long *at(void) { return &shared_state; } "
	one := lib("lib one-2.so.5.1", state+"volatile long only = 1;", "-Wl,-soname,libone.so.5")
	two := filepath.Join(dir, "libtwo:x.so")
	twin := filepath.Join(dir, "twin.c")
	if err := errors.Join(os.WriteFile(twin, []byte("static volatile long twin = 1; "+state), 0o600),
		os.WriteFile(twin+"2.c", []byte("static volatile long twin = 1; long *twin_at(void) { return (long *)&twin; }"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-o", two, twin, twin+"2.c").CombinedOutput(); err != nil {
		t.Fatalf("cc: %v\n%s", err, out)
	}
	data := filepath.Join(dir, "data.bin")
	if err := os.WriteFile(data, make([]byte, 16384), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link.so")
	if err := os.Symlink(one, link); err != nil {
		t.Fatal(err)
	}
	program := hwtest.BuildC(t, `
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
volatile long libtwo = 1;
long state_of(const char *path) {
	long (*at)(void) = dlsym(dlopen(path, RTLD_NOW), "at");
	return at();
}
int main(int argc, char **argv) {
	long one = state_of(argv[1]), two = state_of(argv[2]);
	int fd = open(argv[3], O_RDWR), lib = open(argv[1], O_RDONLY);
	char *data = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 4096);
	mmap(0, 4096, PROT_READ, MAP_PRIVATE, lib, 0);
	mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, lib, 4096);
	long only = (long)dlsym(dlopen(argv[1], RTLD_NOW), "only");
	printf("ready one=%#lx two=%#lx only=%#lx data=%p\n", one, two, only, data);
	fflush(stdout);
	getchar();
}`, "-ldl")
	run := hwtest.Start(t, program, one, two, data)
	p := open(t, run)
	tests := []want{
		{"only", run.Uint("only"), 8, "lib one-2.so.5.1!only", nil},
		{"lib one-2.so.5.1!shared_state", run.Uint("one"), 8, "lib one-2.so.5.1!shared_state", nil},
		{"libone.so.5!shared_state:4", run.Uint("one"), 4, "", nil},
		{link + "!shared_state", run.Uint("one"), 8, "", nil},
		{one + "!shared_state", run.Uint("one"), 8, "", nil},
		{"libtwo:x.so!shared_state:8:rw", run.Uint("two"), 8, "libtwo:x.so!shared_state", nil},
		{two + "!shared_state+4", run.Uint("two") + 4, 4, "libtwo:x.so!shared_state+0x4", nil},
		{"data.bin+0x1800:1", run.Uint("data") + 0x800, 1, "data.bin+0x1800", []string{"shared memory (" + data}},
	}
	for _, tt := range tests {
		check(t, p, tt)
	}
	err := refused(t, p, "shared_state", `"shared_state" is ambiguous: lib one-2.so.5.1!shared_state at 0x`, "MODULE!SYMBOL")
	var ambiguous *target.Ambiguous
	if want := []string{fmt.Sprintf("lib one-2.so.5.1!shared_state at 0x%x", run.Uint("one")),
		fmt.Sprintf("libtwo:x.so!shared_state at 0x%x", run.Uint("two"))}; !errors.As(err, &ambiguous) || !slices.Equal(ambiguous.Places, want) {
		t.Errorf("%v: want the places %q", err, want)
	}
	refused(t, p, "libtwo:x.so!twin", `is ambiguous: libtwo:x.so!twin at 0x`, "give the address")
	refused(t, p, "data.bin+0x100", "offset 0x100 of \"data.bin\" is not mapped", "")
	if err := refused(t, p, "nothing", "unknown symbol", "--list"); !errors.Is(err, target.ErrNotFound) {
		t.Errorf("%v is no ErrNotFound", err)
	}
	refused(t, p, "libc.so.6!memcpy:x", "an IFUNC", "implementation")
}

func TestSymbolBeforeModule(t *testing.T) {
	program := hwtest.BuildC(t, `
#include <stdio.h>
volatile long prog[4] = {1};
int main(void) {
	printf("ready prog=%p\n", prog);
	fflush(stdout);
	getchar();
}`)
	run := hwtest.Start(t, program)
	p := open(t, run)
	check(t, p, want{"prog+16", run.Uint("prog") + 16, 8, "prog!prog+0x10", []string{
		`"prog" is a symbol and a mapped file: the symbol is taken`, "16 bytes, the first 8"}})
}

func TestVDSO(t *testing.T) {
	program := hwtest.BuildC(t, `
#include <stdio.h>
#include <sys/auxv.h>
int main(void) {
	printf("ready vdso=%#lx\n", getauxval(AT_SYSINFO_EHDR));
	fflush(stdout);
	getchar();
}`)
	run := hwtest.Start(t, program)
	p := open(t, run)
	start := run.Uint("vdso")
	check(t, p, want{"[vdso]+0x10:x", start + 0x10, 1, "[vdso]+0x10", nil})
	plan, err := resolve(p, "linux-vdso.so.1!__vdso_gettimeofday:x")
	if err != nil {
		t.Fatal(err)
	}
	if addr := plan.Watches[0].Addr.V; addr <= start || addr >= start+4*4096 || len(plan.Notes) != 0 {
		t.Errorf("0x%x, vdso at 0x%x, notes %q", addr, start, plan.Notes)
	}
}

func TestStartedByAnotherName(t *testing.T) {
	cmd := exec.Command(hwtest.BuildC(t, cSource))
	cmd.Args = []string{"/usr/games/doom"}
	run := hwtest.StartCmd(t, cmd)
	p := open(t, run)
	for _, module := range []string{"prog", "doom", "/usr/games/doom", cmd.Path} {
		check(t, p, want{module + "!counter", run.Uint("counter"), 8, "prog!counter", nil})
	}
}
