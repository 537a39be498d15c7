package proc_test

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestTasksUnderChurn lists threads while others are born and end all the time: those that stay must never be missing.
func TestTasksUnderChurn(t *testing.T) {
	exe := build(t, filepath.Join(t.TempDir(), "churn"), `
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
enum { STAY = 30 };
static pthread_barrier_t ready;
static int tids[STAY];
static void *stay(void *arg) {
	tids[(long)arg] = gettid();
	pthread_barrier_wait(&ready);
	pause();
	return 0;
}
static void *pass(void *arg) { return 0; }
static void *churn(void *arg) {
	for (;;) {
		pthread_t t[4];
		for (int i = 0; i < 4; i++) pthread_create(&t[i], 0, pass, 0);
		for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
	}
}
int main(void) {
	pthread_t t;
	pthread_barrier_init(&ready, 0, STAY + 1);
	pthread_create(&t, 0, churn, 0);
	for (long i = 0; i < STAY; i++) pthread_create(&t, 0, stay, (void *)i);
	pthread_barrier_wait(&ready);
	for (int i = 0; i < STAY; i++) printf("%d ", tids[i]);
	printf("\n");
	fflush(stdout);
	return getchar() == 'x';
}`)
	c := start(t, exec.Command(exe))
	p := open(t, c.pid())
	for range 20 {
		tasks, err := p.Tasks()
		if err != nil {
			t.Fatal(err)
		}
		have := map[int]bool{}
		for _, task := range tasks {
			have[task.TID] = true
		}
		for _, word := range strings.Fields(c.line) {
			if tid, err := strconv.Atoi(word); err != nil || !have[tid] {
				t.Fatalf("thread %q is missing among %d (%v)", word, len(tasks), err)
			}
		}
	}
}
