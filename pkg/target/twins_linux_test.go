package target_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"xw/pkg/hwtest"
	"xw/pkg/target"
)

// withTwins starts a program with a library that has names in common with it: data here and thread-local there, code here
// and an IFUNC there.
func withTwins(t *testing.T) *hwtest.Target {
	t.Helper()
	lib := hwtest.Compile(t, "cc", "lib.c", `
static int implementation(void) { return 2; }
static void *choose(void) { return implementation; }
__thread long twin_state = 1;
int twin_work(void) __attribute__((ifunc("choose")));
long *use(void) { twin_state += twin_work(); return &twin_state; }
`, "-g", "-O1", "-shared", "-fPIC", "-Wl,-Bsymbolic", "-Wl,-soname,libtwins.so")
	program := hwtest.BuildC(t, `
#include <dlfcn.h>
#include <stdio.h>
volatile long twin_state = 1, single = 1;
__attribute__((noinline)) int twin_work(void) { return ++twin_state; }
int main(int argc, char **argv)
{
	dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	printf("ready twin_state=%p single=%p twin_work=%p\n", &twin_state, &single, twin_work);
	fflush(stdout);
	getchar();
	return twin_work();
}`, "-ldl")
	return hwtest.Start(t, program, lib)
}

// TestTwinsWithoutAnAddress refuses to choose where one of two symbols of a name cannot be watched: it may be the one
// that is meant.
func TestTwinsWithoutAnAddress(t *testing.T) {
	run := withTwins(t)
	p := open(t, run)
	for _, test := range []struct {
		watch  string
		places []string // how each begins
	}{
		{"twin_state", []string{"prog!twin_state at 0x", "prog!twin_state (thread-local)"}},
		{"twin_work:x", []string{"prog!twin_work at 0x", "prog!twin_work (IFUNC)"}},
	} {
		_, err := resolve(p, test.watch)
		var ambiguous *target.Ambiguous
		if !errors.As(err, &ambiguous) || !slices.EqualFunc(ambiguous.Places, test.places, strings.HasPrefix) {
			t.Errorf("%s: %v, want the places %q", test.watch, err, test.places)
		}
	}
	check(t, p, want{"single", run.Uint("single"), 8, "prog!single", nil})
}

// TestProgramAlone looks only at the program for names that have no module.
func TestProgramAlone(t *testing.T) {
	run := withTwins(t)
	p := open(t, run)
	for watch, found := range map[string]bool{"twin_state": true, "twin_work:x": true, "environ": false, "libc.so.6!environ": true} {
		spec, err := target.Parse(watch)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := target.Resolve(p, []target.Spec{spec}, target.Options{Program: true})
		if found && (err != nil || len(plan.Watches) != 1) || !found && !errors.Is(err, target.ErrNotFound) {
			t.Errorf("%s: %+v, %v", watch, plan, err)
		}
	}
}
