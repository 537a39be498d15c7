package target_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"xw/pkg/hwtest"
	"xw/pkg/target"
)

func TestCPlusPlus(t *testing.T) {
	program := hwtest.Compile(t, "c++", "main.cc", `
#include <cstdio>
#include <iostream>
namespace ns {
volatile long counter = 1;
volatile long wr = 1;
struct T {
	static volatile long made;
	volatile long *operator->() { static volatile long cache = 1; return &cache; }
	bool operator!=(const T &) { return true; }
};
volatile long T::made = 1;
template <class A> struct Box { static volatile A value; };
template <class A> volatile A Box<A>::value = 1;
volatile long *operator<<(T &, int) { static volatile long shifts = 1; return &shifts; }
namespace { volatile long hidden = 1; }
}
using ns::operator<<;
int main() {
	ns::T t;
	std::printf("ready counter=%p made=%p value=%p cache=%p shifts=%p hidden=%p cout=%p wr=%p\n", (void *)&ns::counter, (void *)&ns::T::made,
		(void *)&ns::Box<int>::value, (void *)t.operator->(), (void *)(t << 1), (void *)&ns::hidden, (void *)&std::cout, (void *)&ns::wr);
	std::fflush(stdout);
	std::getchar();
}`, "-fPIE", "-pie", "-mno-direct-extern-access")
	run := hwtest.Start(t, program)
	p := open(t, run)
	tests := []want{
		{"ns::counter", run.Uint("counter"), 8, "prog!ns::counter", nil},
		{"ns::counter:4:w", run.Uint("counter"), 4, "prog!ns::counter", nil},
		{"_ZN2ns7counterE+4", run.Uint("counter") + 4, 4, "prog!ns::counter+0x4", nil},
		{"ns::wr", run.Uint("wr"), 8, "prog!ns::wr", nil},
		{"ns::T::made", run.Uint("made"), 8, "prog!ns::T::made", nil},
		{"ns::Box<int>::value", run.Uint("value"), 4, "prog!ns::Box<int>::value", nil},
		{"ns::T::operator->()::cache", run.Uint("cache"), 8, "prog!ns::T::operator->()::cache", nil},
		{"ns::operator<<(ns::T&, int)::shifts:8:rw", run.Uint("shifts"), 8, "prog!ns::operator<<(ns::T&, int)::shifts", nil},
		{"prog!ns::(anonymous namespace)::hidden", run.Uint("hidden"), 8, "prog!ns::(anonymous namespace)::hidden", nil},
		{"libstdc++.so.6!_ZSt4cout", run.Uint("cout"), 8, "", []string{"the first 8 are watched"}},
		{"libstdc++.so.6!_ZSt4cout+8:4", run.Uint("cout") + 8, 4, "", nil},
		{"std::cout:8", run.Uint("cout"), 8, "", nil},
	}
	for _, tt := range tests {
		check(t, p, tt)
	}
	refused(t, p, "counter", `unknown symbol "counter", nearest: prog!ns::counter`, "--list")
	listed, err := target.List(p, "ns::*::value")
	if err != nil || len(listed) != 1 || listed[0].Addr != run.Uint("value") || listed[0].Name != "_ZN2ns3BoxIiE5valueE" {
		t.Errorf("List = %+v, %v", listed, err)
	}
}

func TestGo(t *testing.T) {
	for _, mode := range []string{"exe", "pie"} {
		dir := t.TempDir()
		source := filepath.Join(dir, "main.go")
		if err := os.WriteFile(source, []byte(`package main

import (
	"fmt"
	"os"
)

type state struct{ a, b uint64 }

var counter uint64 = 1
var small uint16
var whole state

func main() {
	fmt.Printf("ready counter=%p small=%p whole=%p\n", &counter, &small, &whole)
	os.Stdin.Read(make([]byte, 1))
	counter++; small++; whole.a++
}
`), 0o600); err != nil {
			t.Fatal(err)
		}
		program := filepath.Join(dir, "prog")
		cmd := exec.Command("go", "build", "-buildmode="+mode, "-o", program, source)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go build: %v\n%s", err, out)
		}
		run := hwtest.Start(t, program)
		p := open(t, run)
		check(t, p, want{"main.counter", run.Uint("counter"), 8, "prog!main.counter", nil})
		check(t, p, want{"prog!main.small:rw", run.Uint("small"), 2, "prog!main.small", nil})
		check(t, p, want{"main.whole+8", run.Uint("whole") + 8, 8, "prog!main.whole+0x8", nil})
		refused(t, p, "main.(*T).x", `unknown symbol "main.(*T).x"`, "--list")
	}
}

func TestRust(t *testing.T) {
	if out, err := exec.Command("rustc", "--version").CombinedOutput(); err != nil {
		t.Skipf("rustc does not work here: %v %s", err, out)
	}
	for _, flags := range [][]string{nil, {"-C", "symbol-mangling-version=v0"}} {
		dir := t.TempDir()
		source := filepath.Join(dir, "main.rs")
		if err := os.WriteFile(source, []byte(`
use std::sync::atomic::{AtomicU64, AtomicU8, Ordering};
mod game {
    pub static HP: super::AtomicU64 = super::AtomicU64::new(1);
}
static LEVEL: AtomicU8 = AtomicU8::new(1);
fn main() {
    println!("ready hp={:p} level={:p}", &game::HP, &LEVEL);
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    game::HP.fetch_add(1, Ordering::SeqCst);
    LEVEL.fetch_add(1, Ordering::SeqCst);
}`), 0o600); err != nil {
			t.Fatal(err)
		}
		args := append([]string{"--crate-name", "prog", "-o", filepath.Join(dir, "prog"), source}, flags...)
		if out, err := exec.Command("rustc", args...).CombinedOutput(); err != nil {
			t.Fatalf("rustc: %v\n%s", err, out)
		}
		run := hwtest.Start(t, filepath.Join(dir, "prog"))
		p := open(t, run)
		check(t, p, want{"prog::game::HP", run.Uint("hp"), 8, "prog!prog::game::HP", nil})
		check(t, p, want{"prog!prog::LEVEL:rw", run.Uint("level"), 1, "prog!prog::LEVEL", nil})
		refused(t, p, "HP", `unknown symbol "HP", nearest: prog!prog::game::HP`, "--list")
	}
}

func TestDeletedAndReplaced(t *testing.T) {
	program := hwtest.BuildC(t, cSource)
	run := hwtest.Start(t, program)
	for _, replace := range []bool{false, true} {
		if replace {
			other := hwtest.BuildC(t, "long pad[512] = {1}; long counter = 1; int main(void) { return 0; }")
			if err := os.Rename(other, program); err != nil {
				t.Fatal(err)
			}
		} else if err := os.Remove(program); err != nil {
			t.Fatal(err)
		}
		p := open(t, run)
		check(t, p, want{"counter", run.Uint("counter"), 8, "prog!counter", nil})
		check(t, p, want{program + "!word", run.Uint("word"), 4, "prog!word", nil})
	}
}

// TestMountNamespace hides the program behind an empty directory, in everybody's view or in the target's alone.
func TestMountNamespace(t *testing.T) {
	hwtest.RequireRoot(t)
	program := hwtest.BuildC(t, cSource)
	dir := filepath.Dir(program)
	inner := filepath.Join(t.TempDir(), "inner")
	if err := os.Mkdir(inner, 0o700); err != nil {
		t.Fatal(err)
	}
	// The program is bound to a directory that only the new namespace has something in.
	cmd := exec.Command("/bin/sh", "-c", `mount --bind "$0" "$1" && exec "$1/prog"`, dir, inner)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	run := hwtest.StartCmd(t, cmd)
	if _, err := os.Stat(filepath.Join(inner, "prog")); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("the test sees the target's mount: %v", err)
	}
	p := open(t, run)
	if got := p.Exe().Path; got != filepath.Join(inner, "prog") || p.Exe().Deleted {
		t.Errorf("Exe = %+v", p.Exe())
	}
	check(t, p, want{"prog!counter", run.Uint("counter"), 8, "prog!counter", nil})
	check(t, p, want{filepath.Join(inner, "prog") + "!counter", run.Uint("counter"), 8, "prog!counter", nil})
}

func TestList(t *testing.T) {
	run := hwtest.Start(t, hwtest.BuildC(t, cSource))
	p := open(t, run)
	all, err := target.List(p, "")
	if err != nil || len(all) == 0 || all[0].Module != "prog" {
		t.Fatalf("List = %d symbols, %v", len(all), err)
	}
	for _, tt := range []struct {
		pattern, name string
		size          uint64
	}{
		{"prog!count", "counter", 8}, {"prog!*_bss", "big_bss", 100000}, {"prog!t?ree", "three", 3}, {"prog!*ab*e", "table", 4096},
	} {
		got, err := target.List(p, tt.pattern)
		addr := tt.name
		if addr == "big_bss" {
			addr = "bss"
		}
		if err != nil || len(got) != 1 || got[0].Name != tt.name || got[0].Size != tt.size || got[0].Addr != run.Uint(addr) {
			t.Errorf("List(%q) = %+v, %v, want %s", tt.pattern, got, err, tt.name)
		}
	}
	for _, pattern := range []string{"per_thread", "fixed", "prog!callee", "prog!coun?"} {
		listed, err := target.List(p, pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range listed {
			if got.Module == "prog" && !strings.Contains(got.Name, "counter") {
				t.Errorf("List(%q) has %+v", pattern, got)
			}
		}
	}
}
