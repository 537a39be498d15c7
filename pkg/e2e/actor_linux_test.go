//go:build amd64

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"xw/pkg/hwtest"
)

// actorSource is a program that accesses counter in all ways as it is told: each line of input is a command and numbers,
// and is answered by "done" and how many stores were made since the start, with the number that the next store will
// leave. "seq" is that number: each store leaves one more than the one before, whoever makes it.
const actorSource = `
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

volatile unsigned long counter __attribute__((aligned(64)));
volatile char range[64] __attribute__((aligned(64)));
static unsigned long *seq; /* shared with forked children */
static unsigned long ended; /* threads that have stored and ended */

__attribute__((noinline)) static void store(void) { counter = ++*seq; }

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t fired = PTHREAD_COND_INITIALIZER;
static int round_, waiting, answered;

static void *one(void *a) { store(); return 0; }
static void *detached(void *a)
{
	pthread_mutex_lock(&lock);
	store();
	ended++;
	pthread_mutex_unlock(&lock);
	return 0;
}
static void *many(void *n)
{
	for (long i = 0; i < (long)n; i++) __atomic_fetch_add(&counter, 1, __ATOMIC_SEQ_CST);
	return 0;
}
static void *stay(void *a)
{
	pthread_mutex_lock(&lock);
	waiting++;
	for (int seen = round_;;) {
		while (round_ == seen) pthread_cond_wait(&fired, &lock);
		seen = round_;
		store();
		answered++;
	}
}
static void *successor(void *n)
{
	store();
	if ((long)n > 1) {
		pthread_t t;
		if (pthread_create(&t, 0, successor, (void *)((long)n - 1))) abort();
		pthread_detach(t);
	} else {
		ended++;
	}
	return 0;
}
static int child(void *n) { for (long i = 0; i < (long)n; i++) store(); return 0; }

static pthread_attr_t small;
static char stack[65536] __attribute__((aligned(16)));
static int sharer;

static void start(void *(*f)(void *), long a, pthread_t *t)
{
	pthread_t own;
	if (pthread_create(t ? t : &own, &small, f, (void *)a)) abort();
	if (!t) pthread_detach(own);
}

static void act(char *what, long a, long b, long c)
{
	if (!strcmp(what, "store")) {
		for (long i = 0; i < a; i++) store();
	} else if (!strcmp(what, "load")) {
		for (long i = 0; i < a; i++) (void)counter;
	} else if (!strcmp(what, "add")) { /* a threads at once, b times each */
		pthread_t t[a];
		for (long i = 0; i < a; i++) start(many, b, &t[i]);
		for (long i = 0; i < a; i++) pthread_join(t[i], 0);
	} else if (!strcmp(what, "oneshot")) { /* a threads, one after the other */
		for (long i = 0; i < a; i++) {
			pthread_t t;
			start(one, 0, &t);
			pthread_join(t, 0);
		}
	} else if (!strcmp(what, "churn")) { /* a threads, one each b us */
		unsigned long before = ended;
		for (long i = 0; i < a; i++) { start(detached, 0, 0); usleep(b); }
		for (;;) {
			pthread_mutex_lock(&lock);
			unsigned long now = ended;
			pthread_mutex_unlock(&lock);
			if (now - before == a) break;
			usleep(1000);
		}
	} else if (!strcmp(what, "live")) { /* a threads that stay */
		int before = waiting;
		for (long i = 0; i < a; i++) start(stay, 0, 0);
		while (waiting - before < a) usleep(1000);
	} else if (!strcmp(what, "fire")) { /* each thread that stays stores */
		pthread_mutex_lock(&lock);
		answered = 0;
		round_++;
		pthread_cond_broadcast(&fired);
		while (answered < waiting) {
			pthread_mutex_unlock(&lock);
			usleep(500);
			pthread_mutex_lock(&lock);
		}
		pthread_mutex_unlock(&lock);
	} else if (!strcmp(what, "succeed")) { /* a thread stores, creates the next one and ends, a times */
		unsigned long before = ended;
		start(successor, a, 0);
		while (*(volatile unsigned long *)&ended == before) usleep(500);
	} else if (!strcmp(what, "fork")) { /* a children, b stores each, to their copies */
		for (long i = 0; i < a; i++) {
			if (fork() == 0) { child((void *)b); _exit(0); }
			wait(0);
		}
	} else if (!strcmp(what, "vfork")) {
		for (long i = 0; i < a; i++) {
			pid_t p = vfork();
			if (p == 0) { child((void *)b); _exit(0); }
			waitpid(p, 0, 0);
		}
	} else if (!strcmp(what, "clone")) { /* with CLONE_VM: the same memory, another process */
		for (long i = 0; i < a; i++) {
			pid_t p = clone(child, stack + sizeof stack, CLONE_VM | SIGCHLD, (void *)b);
			if (p < 0) abort();
			waitpid(p, 0, 0);
		}
	} else if (!strcmp(what, "read")) { /* a times 8 bytes by read(2) */
		int p[2];
		if (pipe(p)) abort();
		for (long i = 0; i < a; i++) {
			unsigned long v = ++*seq;
			if (write(p[1], &v, 8) != 8 || read(p[0], (void *)&counter, 8) != 8) abort();
		}
		close(p[0]); close(p[1]);
	} else if (!strcmp(what, "recv")) {
		int p[2];
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, p)) abort();
		for (long i = 0; i < a; i++) {
			unsigned long v = ++*seq;
			if (send(p[1], &v, 8, 0) != 8 || recv(p[0], (void *)&counter, 8, 0) != 8) abort();
		}
		close(p[0]); close(p[1]);
	} else if (!strcmp(what, "write")) { /* the kernel reads counter */
		int p[2];
		unsigned long v;
		if (pipe(p)) abort();
		for (long i = 0; i < a; i++)
			if (write(p[1], (void *)&counter, 8) != 8 || read(p[0], &v, 8) != 8) abort();
		close(p[0]); close(p[1]);
	} else if (!strcmp(what, "byte")) { /* one byte of range each time: offset a, b times */
		for (long i = 0; i < b; i++) range[a] = i;
	} else if (!strcmp(what, "word")) { /* 8 bytes of range at offset a, aligned or not */
		for (long i = 0; i < b; i++) *(volatile unsigned long *)(range + a) = i;
	} else {
		abort();
	}
}

static int sharing(void *fd)
{
	/* Another process with the same memory: each byte that comes is a store. */
	char c;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (read((int)(long)fd, &c, 1) == 1) {
		store();
		if (write((int)(long)fd, &c, 1) != 1) break;
	}
	return 0;
}

int main(int argc, char **argv)
{
	char line[128], what[32];
	int pair[2];
	seq = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 16384);
	printf("ready counter=%p range=%p store=%p\n", (void *)&counter, (void *)range, (void *)store); fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		long a = 0, b = 0, c = 0;
		sscanf(line, "%31s %ld %ld %ld", what, &a, &b, &c);
		if (!strcmp(what, "sharer")) {
			if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) abort();
			if (clone(sharing, stack + sizeof stack, CLONE_VM | SIGCHLD, (void *)(long)pair[0]) < 0) abort();
		} else if (!strcmp(what, "share")) { /* a stores by the other process */
			char c = 0;
			for (long i = 0; i < a; i++) if (write(pair[1], &c, 1) != 1 || read(pair[1], &c, 1) != 1) abort();
		} else if (!strcmp(what, "exec")) { /* the same program again, at the same addresses if it is not PIE */
			execl("/proc/self/exe", argv[0], (char *)0);
			abort();
		} else if (!strcmp(what, "leave")) { /* the main thread ends, another one goes on */
			break;
		} else {
			act(what, a, b, c);
		}
		printf("done seq=%lu\n", *seq); fflush(stdout);
	}
	return 0;
}
`

// actor is a running actorSource.
type actor struct {
	*hwtest.Target
	t testing.TB
}

// startActor starts the program, compiled with further flags.
func startActor(t testing.TB, flags ...string) *actor {
	t.Helper()
	return &actor{hwtest.Start(t, hwtest.BuildC(t, actorSource, flags...)), t}
}

// do has the program act and returns how many stores it has made since the start.
func (a *actor) do(command string, numbers ...int) (seq uint64) {
	a.t.Helper()
	a.Send(strings.TrimSuffix(fmt.Sprintln(command, fmt.Sprint(numbers)[1:len(fmt.Sprint(numbers))-1]), "\n"))
	if line := a.Line(); !strings.HasPrefix(line, "done ") {
		a.t.Fatalf("%s: the program says %q", command, line)
	} else if _, err := fmt.Sscanf(line, "done seq=%d", &seq); err != nil {
		a.t.Fatal(err)
	}
	return seq
}
