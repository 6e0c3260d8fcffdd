/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A worker that trains for ever and has all kinds of bad days, for bench/soak.py: a step about each
 * second, a numbered line for each, now and then a flood of lines, a barrier, a value for the
 * others, an end with code 1, a crash. The numbers count from 0 in each attempt, without a gap; the
 * last line of a worker that ends by itself is "end".
 */

#include "worker/elasticd.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define FLOOD_LINES 5000
#define BARRIER_MS 5000

static unsigned int seed;

static bool one_in(unsigned int n)
{
	return (unsigned int)rand_r(&seed) % n == 0;
}

static void line(void)
{
	static long n;

	printf("%ld step, loss and whatever else a training program says on each line of its log\n",
		n++);
}

static int save(void *arg, int64_t step, char *path, size_t path_size)
{
	return 0;
}

static void leave(void *arg, int code)
{
	struct elasticd *h = arg;

	printf("end %d\n", code);
	fflush(stdout);
	elasticd_close(h);
	exit(code);
}

static void step(struct elasticd *h, int64_t n)
{
	char value[100] = "a value of some length";

	if (elasticd_checkpoint(h, n, save, leave, h, NULL)) {
		fprintf(stderr, "%s\n", elasticd_error_text());
		leave(h, elasticd_exit_code(h));
	}
	line();
	for (int i = one_in(300) ? FLOOD_LINES : 0; i; i--)
		line();
	fflush(stdout);
	if (n % 16 == 15)
		elasticd_barrier(h, "often", NULL, 0, BARRIER_MS);
	if (one_in(30))
		elasticd_put(h, "last", value, sizeof(value), ELASTICD_PUT_OVERWRITE);
	if (one_in(1200))
		leave(h, one_in(4) ? 0 : 1);
	if (one_in(2400))
		abort();
}

int main(void)
{
	struct elasticd *h;
	struct timespec t;

	if (elasticd_open(&h)) {
		fprintf(stderr, "%s\n", elasticd_error_text());
		return 1;
	}
	clock_gettime(CLOCK_REALTIME, &t);
	seed = (unsigned int)t.tv_nsec ^ (unsigned int)elasticd_rank(h) << 20;
	for (int64_t n = 0;; n++) {
		unsigned int ms = 500 + (unsigned int)rand_r(&seed) % 1000;

		step(h, n);
		t = (struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };
		nanosleep(&t, NULL);
	}
}
