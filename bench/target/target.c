/*
 * A program that is watched. It prints the address of its variable, and then does as it is told on standard input:
 *
 *   spin N    stores N times, flat out, and prints how many nanoseconds that took
 *   births N  starts N threads one after the other, each of which stores once
 *   threads N starts N threads that sleep
 *
 * Each line is answered by one.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static volatile long counter __attribute__((aligned(64)));

static long now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

static long spin(long n)
{
	long start = now();
	for (long i = 1; i <= n; i++)
		counter = i;
	return now() - start;
}

static void *once(void *arg)
{
	counter = (long)arg;
	return NULL;
}

static void *sleeper(void *arg)
{
	(void)arg;
	for (;;)
		pause();
}

static void start(pthread_t *t, void *(*f)(void *), long arg)
{
	pthread_attr_t small;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 64 << 10);
	int err = pthread_create(t, &small, f, (void *)arg);
	if (err) {
		fprintf(stderr, "create a thread: %s\n", strerror(err));
		exit(1);
	}
}

int main(void)
{
	/* The tools have the other CPUs: how much of this one they take by chance is not to be measured. */
	cpu_set_t first;
	CPU_ZERO(&first);
	CPU_SET(0, &first);
	sched_setaffinity(0, sizeof first, &first);

	char line[64];
	printf("0x%lx\n", (unsigned long)&counter);
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		long n = 0, answer = 0;
		pthread_t t;
		if (sscanf(line, "spin %ld", &n) == 1) {
			answer = spin(n);
		} else if (sscanf(line, "births %ld", &n) == 1) {
			for (long i = 0; i < n; i++) {
				start(&t, once, i);
				pthread_join(t, NULL);
			}
		} else if (sscanf(line, "threads %ld", &n) == 1) {
			for (long i = 0; i < n; i++)
				start(&t, sleeper, i);
		}
		printf("%ld\n", answer);
		fflush(stdout);
	}
	return 0;
}
