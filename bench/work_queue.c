/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The costs of the work queue in C, as workers of a job. "work_queue work" finishes each task at
 * once. A coordinator waits for WORKERS workers and prints one number: "work_queue many N BYTES
 * WINDOW WORKERS" the nanoseconds until the values of N tasks are fetched, at most WINDOW tasks at
 * a time; "work_queue one N WORKERS" the median nanoseconds from submitting a task to its value,
 * one at a time; "work_queue fill N BYTES" the memory of the agent in bytes, with N tasks that no
 * worker takes.
 */

#include "bench/check.h"
#include "bench/clock.h"
#include "worker/elasticd_queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WINDOW_MAX = 8192, PIECE = 256 };

static struct elasticd *h;
static struct elasticd_queue *q;

static void work(void)
{
	const struct elasticd_queue_item *item;
	struct elasticd_queue_work *w;

	check(elasticd_queue_work_open(h, &w));
	check(elasticd_queue_work_next(w, -1, &item));
	while (item)
		check(elasticd_queue_work_finish_next(w, NULL, -1, &item));
	elasticd_queue_work_close(w);
}

/* All workers ask for work. */
static void wait_for(int workers)
{
	struct elasticd_queue_stats stats = { 0 };

	while (stats.free < workers) {
		usleep(10000);
		check(elasticd_queue_stats(h, NULL, &stats));
	}
}

static void submit(const struct elasticd_queue_new_task *tasks, size_t n, int64_t *ids)
{
	size_t done;

	check(elasticd_queue_submit(q, tasks, n, -1, ids, &done));
	if (done != n)
		exit(1);
}

static void fetch(const int64_t *ids, size_t n)
{
	struct elasticd_queue_outcome *outcomes;
	size_t got;

	for (size_t i = 0; i < n; i += got) {
		check(elasticd_queue_fetch(
			q, ids + i, n - i, ELASTICD_FETCH_RELEASE, -1, &outcomes, &got));
		elasticd_queue_outcomes_free(outcomes, got);
	}
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

static void many(size_t n, size_t bytes, size_t window)
{
	static struct elasticd_queue_new_task tasks[PIECE];
	static int64_t ids[WINDOW_MAX];
	char *payload = calloc(1, bytes + 1);
	size_t in = 0, out = 0;
	long long begun;

	memset(payload, 'x', bytes);
	for (size_t i = 0; i < PIECE; i++)
		tasks[i].payload = (struct elasticd_queue_bytes){ payload, bytes, NULL };
	begun = now_ns();
	while (out < n) {
		while (in < n && in - out < window) {
			size_t place = in % WINDOW_MAX;
			size_t piece = least(least(PIECE, n - in), window - (in - out));

			piece = least(piece, WINDOW_MAX - place);
			submit(tasks, piece, ids + place);
			in += piece;
		}
		size_t place = out % WINDOW_MAX;
		size_t piece = least(least(PIECE, in - out), WINDOW_MAX - place);

		piece = least(piece, window > 2 * PIECE ? PIECE : (window + 1) / 2);
		fetch(ids + place, piece);
		out += piece;
	}
	printf("%lld\n", now_ns() - begun);
	free(payload);
}

static void one(int n)
{
	struct elasticd_queue_new_task task = { 0 };
	long long *took = calloc((size_t)n, sizeof(*took));
	int64_t id;

	for (int i = 0; i < n; i++) {
		took[i] = now_ns();
		submit(&task, 1, &id);
		fetch(&id, 1);
		took[i] = now_ns() - took[i];
	}
	qsort(took, (size_t)n, sizeof(*took), compare_ns);
	printf("%lld\n", took[n / 2]);
	free(took);
}

static void fill(size_t n, size_t bytes)
{
	static struct elasticd_queue_new_task tasks[PIECE];
	static int64_t ids[PIECE];
	char *payload = calloc(1, bytes + 1);
	char path[64], line[256];
	long long kib = 0;

	memset(payload, 'x', bytes);
	for (size_t i = 0; i < PIECE; i++)
		tasks[i].payload = (struct elasticd_queue_bytes){ payload, bytes, NULL };
	for (size_t i = 0; i < n; i += PIECE)
		submit(tasks, least(PIECE, n - i), ids);
	snprintf(path, sizeof(path), "/proc/%d/status", (int)getppid());
	FILE *f = fopen(path, "re");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "VmRSS: %lld", &kib) == 1)
			break;
	if (f)
		fclose(f);
	printf("%lld\n", kib * 1024);
	free(payload);
}

static size_t number(char **argv, int i)
{
	return strtoul(argv[i], NULL, 10);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	check(elasticd_open(&h));
	if (!strcmp(what, "work")) {
		work();
		elasticd_close(h);
		return 0;
	}
	check(elasticd_queue_open(h, NULL, &q));
	if (!strcmp(what, "many") && argc == 6) {
		wait_for((int)number(argv, 5));
		many(number(argv, 2), number(argv, 3), least(number(argv, 4), WINDOW_MAX));
	} else if (!strcmp(what, "one") && argc == 4) {
		wait_for((int)number(argv, 3));
		one((int)number(argv, 2));
	} else if (!strcmp(what, "fill") && argc == 4) {
		fill(number(argv, 2), number(argv, 3));
	} else {
		fprintf(stderr,
			"usage: work_queue work | many N BYTES WINDOW WORKERS | one N WORKERS "
			"| fill N BYTES\n");
		return 2;
	}
	elasticd_queue_close(q);
	check(elasticd_queue_close_all(h));
	elasticd_close(h);
	return 0;
}
