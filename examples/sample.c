/*
 * A program to watch: several threads change one global variable, counter, from different functions.
 *
 *   sample [SECONDS]      ends after SECONDS (default 60), or at SIGINT or SIGTERM
 *
 * Its first line of output is the ready line. At its end it prints how often each thread changed counter, so that what
 * a watch saw of the whole run can be checked:
 *
 *   order-1      takes an order            counter += 1, by take_order
 *   order-2      the same, at another rate
 *   refunds      takes one back            counter -= 1, by refund
 *   imports      sets it to what a pipe says, by read(2): the kernel writes
 *   late         is born one second after the start and takes orders
 *   monitor      only reads it
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

long counter;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int stop;

struct worker {
	const char *name;
	void (*work)(struct worker *);
	int period_us; /* between two changes */
	long changes;  /* of counter, by this thread */
	long seen;     /* the last value read, or imported */
	int pipe[2];
	pthread_t thread;
};

__attribute__((noinline)) static void take_order(struct worker *w)
{
	counter += 1;
	w->changes++;
}

__attribute__((noinline)) static void refund(struct worker *w)
{
	counter -= 1;
	w->changes++;
}

/* read(2) copies into counter: the kernel is who writes. */
__attribute__((noinline)) static void import_total(struct worker *w)
{
	w->seen = counter + 1000;
	if (write(w->pipe[1], &w->seen, sizeof w->seen) != sizeof w->seen ||
	    read(w->pipe[0], &counter, sizeof counter) != sizeof counter)
		abort();
	w->changes++;
}

__attribute__((noinline)) static void look(struct worker *w)
{
	w->seen = counter;
}

static void *run(void *arg)
{
	struct worker *w = arg;

	pthread_setname_np(pthread_self(), w->name);
	while (!stop) {
		pthread_mutex_lock(&lock);
		w->work(w);
		pthread_mutex_unlock(&lock);
		usleep(w->period_us);
	}
	return NULL;
}

static void start(struct worker *w)
{
	if (pipe(w->pipe) != 0 || pthread_create(&w->thread, NULL, run, w) != 0) {
		perror("sample: start a thread");
		exit(1);
	}
}

/* Sleeps for a time, or until a signal that asks for the end. */
static int pause_for(const sigset_t *end, int seconds)
{
	struct timespec time = {.tv_sec = seconds};

	return sigtimedwait(end, NULL, &time) > 0;
}

int main(int argc, char **argv)
{
	struct worker workers[] = {
		{.name = "order-1", .work = take_order, .period_us = 2000},
		{.name = "order-2", .work = take_order, .period_us = 5000},
		{.name = "refunds", .work = refund, .period_us = 10000},
		{.name = "imports", .work = import_total, .period_us = 100000},
		{.name = "monitor", .work = look, .period_us = 1000},
		{.name = "late", .work = take_order, .period_us = 4000},
	};
	enum { WORKERS = sizeof workers / sizeof *workers, LATE = WORKERS - 1 };
	int seconds = argc > 1 ? atoi(argv[1]) : 60;
	int started = LATE;
	long total = 0;
	sigset_t end;

	sigemptyset(&end);
	sigaddset(&end, SIGINT);
	sigaddset(&end, SIGTERM);
	sigprocmask(SIG_BLOCK, &end, NULL);

	for (int i = 0; i < LATE; i++)
		start(&workers[i]);
	printf("ready pid=%d counter=%p threads=%d\n", (int)getpid(), (void *)&counter, LATE + 1);
	fflush(stdout);
	if (seconds < 1)
		seconds = 1;
	if (!pause_for(&end, 1)) {
		start(&workers[LATE]);
		started = WORKERS;
		if (seconds > 1)
			pause_for(&end, seconds - 1);
	}

	stop = 1;
	for (int i = 0; i < started; i++)
		pthread_join(workers[i].thread, NULL);
	for (int i = 0; i < started; i++) {
		if (workers[i].work == import_total || workers[i].work == look)
			continue;
		printf("%s=%ld ", workers[i].name, workers[i].changes);
		total += workers[i].changes;
	}
	printf("written=%ld imported=%ld last=%ld\n", total, workers[3].changes, counter);
	return 0;
}
