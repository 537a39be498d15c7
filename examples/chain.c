/*
 * A program to watch through a pointer: a game whose player is allocated anew at each level, while others change his
 * health.
 *
 *   chain [SECONDS]      ends after SECONDS (default 60)
 *
 * The health is behind two pointers: game points to a struct game, which points at +0x10 to a struct player, which has it
 * at +0x28. Its first line of output is the ready line.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct player {
	char name[32];
	int level;
	int armour;
	int health; /* +0x28 */
	int gold;
};

struct game {
	long turn;
	long score;
	struct player *player; /* +0x10 */
};

_Static_assert(offsetof(struct player, health) == 0x28 && offsetof(struct game, player) == 0x10, "offsets");

struct game *game;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) static void fight(void)
{
	game->player->health -= 3;
	game->score++;
}

__attribute__((noinline)) static void rest(void)
{
	game->player->health += 1;
}

__attribute__((noinline)) static void next_level(void)
{
	struct player *old = game->player, *new = malloc(sizeof *new);

	*new = *old;
	new->level++;
	new->health = 100;
	game->player = new;
	free(old);
}

struct task {
	const char *name;
	void (*work)(void);
	int period_us;
};

static void *repeat(void *arg)
{
	struct task *t = arg;

	pthread_setname_np(pthread_self(), t->name);
	for (;;) {
		usleep(t->period_us);
		pthread_mutex_lock(&lock);
		t->work();
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	static struct task tasks[] = {
		{"fights", fight, 5000},
		{"rests", rest, 8000},
		{"levels", next_level, 200000},
	};
	pthread_t thread;

	game = calloc(1, sizeof *game);
	game->player = calloc(1, sizeof *game->player);
	for (int i = 0; i < 3; i++)
		if (pthread_create(&thread, NULL, repeat, &tasks[i]) != 0)
			return 1;
	printf("ready pid=%d game=%p\n", (int)getpid(), (void *)&game);
	fflush(stdout);
	sleep(argc > 1 ? atoi(argv[1]) : 60);
	printf("level=%d health=%d\n", game->player->level, game->player->health);
	return 0;
}
