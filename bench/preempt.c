/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Workers that are preempted. "preempt train DIRECTORY" begins a step each millisecond; when it is
 * asked to save it says at once that it has, and leaves; DIRECTORY/saved.RANK is the time after
 * that, in nanoseconds of CLOCK_REALTIME. "preempt step N", with two workers, prints nanoseconds of
 * CPU time for one step of rank 0 while a notice is up; rank 1 is so far ahead that the agreed step
 * is never reached.
 */

#include "bench/check.h"
#include "bench/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FAR INT64_C(1000000000000)

static struct elasticd *h;

static void pause_ms(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

static int save(void *arg, int64_t step, char *path, size_t path_size)
{
	return 0;
}

/* Leaves, and writes down when. */
static void leave(void *arg, int code)
{
	const char *directory = arg;
	char path[4096];
	FILE *f;

	if (directory) {
		long long now = clock_ns(CLOCK_REALTIME);

		snprintf(path, sizeof(path), "%s/saved.%d", directory, elasticd_rank(h));
		f = fopen(path, "we");
		if (!f || fprintf(f, "%lld\n", now) < 0 || fclose(f))
			exit(1);
	}
	exit(code);
}

static void train(char *directory)
{
	for (int64_t n = 0;; n++) {
		check(elasticd_checkpoint(h, n, save, leave, directory, NULL));
		pause_ms();
	}
}

static void step(int n)
{
	int64_t at = elasticd_rank(h) == 1 ? FAR : 0;
	enum elasticd_action action;
	long long begun;

	check(elasticd_step(h, at, NULL));
	check(elasticd_barrier(h, "begun", NULL, 0, -1));
	if (elasticd_rank(h) == 0)
		check(elasticd_notify(h, "to be measured", -1));
	while (!elasticd_notice(h))
		pause_ms();
	if (elasticd_rank(h) == 0) {
		begun = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
		for (int i = 0; i < n; i++) {
			check(elasticd_step(h, i, &action));
			if (action != ELASTICD_ACTION_CONTINUE)
				exit(1);
		}
		printf("%.2f\n", (double)(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - begun) / n);
		fflush(stdout);
	}
	check(elasticd_checkpoint(h, FAR + 1, save, leave, NULL, NULL));
}

int main(int argc, char *argv[])
{
	check(elasticd_open(&h));
	if (argc == 3 && strcmp(argv[1], "step") == 0)
		step(atoi(argv[2]));
	else if (argc == 3 && strcmp(argv[1], "train") == 0)
		train(argv[2]);
	return 2;
}
