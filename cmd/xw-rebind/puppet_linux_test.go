package main

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"xw/pkg/hwtest"
)

// puppetProgram is the program that the live tests watch. It does what its input says, each line
//
//	THREAD OPERATION [NUMBER...]
//
// on the given one of its threads, and answers with a line that says when it was done, in ns of CLOCK_MONOTONIC. What goes
// on until it is told to halt is answered when it begins.
const puppetProgram = `#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>

typedef unsigned long long u64;
#define AT(type, a) (*(volatile type *)(uintptr_t)(a))

volatile uintptr_t anchor[4] __attribute__((aligned(64)));
volatile int plain;

struct worker {
	pthread_t thread;
	sem_t go, done;
	char op[16];
	u64 arg[5], from, to, result;
	volatile int halt;
} workers[16];

static u64 now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void store(u64 a, u64 len, u64 v)
{
	switch (len) {
	case 1: AT(uint8_t, a) = v; break;
	case 2: AT(uint16_t, a) = v; break;
	case 4: AT(uint32_t, a) = v; break;
	default: AT(u64, a) = v;
	}
}

static u64 load(u64 a, u64 len)
{
	switch (len) {
	case 1: return AT(uint8_t, a);
	case 2: return AT(uint16_t, a);
	case 4: return AT(uint32_t, a);
	default: return AT(u64, a);
	}
}

__attribute__((noinline)) void first(void) { asm volatile("nop"); }
__attribute__((noinline)) void second(void) { asm volatile("nop; nop"); }

/* What goes on until it is told to halt; the result is how often. */
static u64 on(struct worker *w, u64 *a)
{
	u64 n = 0;
	if (!strcmp(w->op, "hammer"))            /* address length: stores 1, 2, 3... */
		for (; !w->halt; n++) store(a[0], a[1], n + 1);
	else if (!strcmp(w->op, "chase"))        /* address offset: adds to the number behind the pointer */
		for (; !w->halt; n++) AT(uint32_t, AT(uintptr_t, a[0]) + a[1]) += 1;
	else if (!strcmp(w->op, "flip"))         /* address value value: stores them by turns */
		for (; !w->halt; n++) AT(uintptr_t, a[0]) = a[1 + n % 2];
	else {                                   /* timed: address value time: stores a pointer then */
		while (now() < a[2]) {}
		w->from = now();
		AT(uintptr_t, a[0]) = a[1];
	}
	return n;
}

static void once(struct worker *w, u64 *a)
{
	if (!strcmp(w->op, "store"))             /* address length value times: each one more than the last */
		for (u64 i = 0; i < a[3]; i++) store(a[0], a[1], a[2] + i);
	else if (!strcmp(w->op, "load"))         /* address length times */
		for (u64 i = 0; i < a[2]; i++) w->result = load(a[0], a[1]);
	else if (!strcmp(w->op, "call"))         /* address times */
		for (u64 i = 0; i < a[1]; i++) ((void (*)(void))(uintptr_t)a[0])();
	else if (!strcmp(w->op, "both"))         /* address value address value: one store after the other */
		AT(uintptr_t, a[0]) = a[1], AT(uintptr_t, a[2]) = a[3];
	else if (!strcmp(w->op, "alloc"))        /* size */
		w->result = (uintptr_t)calloc(1, a[0]);
	else if (!strcmp(w->op, "free"))
		free((void *)(uintptr_t)a[0]);
	else if (!strcmp(w->op, "map"))
		w->result = (uintptr_t)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	else if (!strcmp(w->op, "remap"))        /* address: maps a page there again */
		w->result = (uintptr_t)mmap((void *)(uintptr_t)a[0], 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	else if (!strcmp(w->op, "unmap"))
		munmap((void *)(uintptr_t)a[0], 4096);
	else if (!strcmp(w->op, "hide"))         /* from other processes of the user */
		prctl(PR_SET_DUMPABLE, 0);
	else if (!strcmp(w->op, "pin")) {        /* CPU */
		cpu_set_t set;
		CPU_ZERO(&set);
		CPU_SET(a[0], &set);
		sched_setaffinity(0, sizeof set, &set);
	}
}

static int goes_on(const char *op) { return !strcmp(op, "hammer") || !strcmp(op, "chase") || !strcmp(op, "flip") || !strcmp(op, "timed"); }

static void *work(void *arg)
{
	struct worker *w = arg;
	for (;;) {
		while (sem_wait(&w->go) != 0) {}
		u64 a[5];
		memcpy(a, w->arg, sizeof a);
		w->from = now();
		if (goes_on(w->op)) {
			sem_post(&w->done);
			w->result = on(w, a);
		} else
			once(w, a);
		w->to = now();
		sem_post(&w->done);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int threads = atoi(argv[1]), t;
	char line[256];
	u64 a[5];
	for (int i = 0; i < threads; i++) {
		sem_init(&workers[i].go, 0, 0);
		sem_init(&workers[i].done, 0, 0);
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	}
	printf("ready anchor=%p plain=%p first=%p second=%p bytes=%d\n", (void *)anchor, (void *)&plain, (void *)first, (void *)second, (int)sizeof(void *));
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		char op[16];
		memset(a, 0, sizeof a);
		sscanf(line, "%d %15s %lli %lli %lli %lli %lli", &t, op, &a[0], &a[1], &a[2], &a[3], &a[4]);
		struct worker *w = &workers[t];
		if (!strcmp(op, "halt"))
			w->halt = 1;
		else {
			w->halt = 0;
			strcpy(w->op, op);
			memcpy(w->arg, a, sizeof a);
			sem_post(&w->go);
		}
		while (sem_wait(&w->done) != 0) {}
		printf("done from=%llu to=%llu result=0x%llx\n", w->from, w->to, w->result);
		fflush(stdout);
	}
	return 0;
}
`

// puppet is the running program.
type puppet struct {
	puppeteer
	process int
	anchor  uint64 // address of four pointers
	plain   uint64 // address of an int
	bytes   uint64 // of a pointer
}

// puppeteer talks to the program: a *hwtest.Target, or what holds the pipes of a command of xw-open.
type puppeteer interface {
	Send(line string)
	Line() string
	Uint(name string) uint64 // of the ready line
}

// did is when the puppet did something, and what came of it.
type did struct{ from, to, result uint64 }

func startPuppet(t testing.TB, threads int, flags ...string) puppet {
	t.Helper()
	return startPuppetCmd(t, exec.Command(hwtest.BuildC(t, puppetProgram, flags...), fmt.Sprint(threads)))
}

// startPuppetCmd starts a program, prepared by the caller, that was built from puppetProgram.
func startPuppetCmd(t testing.TB, cmd *exec.Cmd) puppet {
	t.Helper()
	p := hwtest.StartCmd(t, cmd)
	return puppetOf(p, p.PID)
}

func puppetOf(p puppeteer, pid int) puppet {
	return puppet{puppeteer: p, process: pid, anchor: p.Uint("anchor"), plain: p.Uint("plain"), bytes: p.Uint("bytes")}
}

// do has a thread do something.
func (p puppet) do(thread int, format string, args ...any) did {
	p.Send(fmt.Sprint(thread, " ") + fmt.Sprintf(format, args...))
	line := p.Line()
	var d did
	if _, err := fmt.Sscanf(line, "done from=%d to=%d result=0x%x", &d.from, &d.to, &d.result); err != nil {
		panic(fmt.Sprintf("the puppet answered %q: %v", line, err))
	}
	return d
}

// point has a thread write a pointer.
func (p puppet) point(thread int, slot, to uint64) did {
	return p.do(thread, "store %#x %d %#x 1", slot, p.bytes, to)
}

// alloc allocates zeroed memory.
func (p puppet) alloc(size int) uint64 { return p.do(0, "alloc %d", size).result }

// pid is the process as an argument.
func (p puppet) pid() string { return fmt.Sprint(p.process) }

// list builds objects that hang on the anchor, each at an offset in the one before, and returns the address of each. Where a
// leaf at an offset of the last one is, the caller knows.
func (p puppet) list(offsets ...int64) []uint64 {
	objects := []uint64{}
	slot := p.anchor
	for i := range len(offsets) + 1 {
		object := p.alloc(0x80) + 0x40 // with room on both sides
		p.point(0, slot, object)
		objects = append(objects, object)
		if i < len(offsets) {
			slot = object + uint64(offsets[i])
		}
	}
	return objects
}

// arrow writes a chain from the anchor in the grammar of watches.
func arrow(offsets ...int64) string {
	var b strings.Builder
	b.WriteString("anchor")
	for _, o := range offsets {
		if o < 0 {
			fmt.Fprintf(&b, "->-%#x", -o)
		} else {
			fmt.Fprintf(&b, "->%#x", o)
		}
	}
	return b.String()
}
