/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The history of a job as numbered Event objects: the newest are kept in memory; each is appended
 * to the files events.jsonl of the run's log directory and of its record, and handed to a callback.
 * Where a file cannot be written its lines are lost; the next event tries again.
 */

#include "common/base/cleanup.h"

#include <jansson.h>
#include <stdint.h>

struct events;

/* event is borrowed. */
typedef void (*events_fn)(void *arg, const json_t *event);

/* dirs: the run's log directory, whose file system may hang, and its record; each may be NULL.
 * seq: the last number that an earlier agent used. fn (may be NULL) is called after each event. */
_must_check_ int events_new(const char *job, const char *run, const char *const dirs[2],
	int64_t seq, events_fn fn, void *arg, struct events **ret);
struct events *events_free(struct events *e);
DEFINE_CLEANUP(struct events *, events_free)

/* attempt and rank: -1 when they do not apply. data is taken, may be NULL. */
void events_add(struct events *e, const char *event, int attempt, int rank, json_t *data,
	const char *fmt, ...) __attribute__((format(printf, 6, 7)));

/*
 * By how many microseconds the clock was set since the newest event, forward or back; 0: not by a
 * second or more. The next event comes after one "clock-set", which has that as "by_us".
 */
int64_t events_clock_set_us(const struct events *e);

int64_t events_last_seq(const struct events *e);

/* Events with seq > since, oldest first, at most limit: from memory, and from a file if they are
 * older than that. Returns an owned array. */
json_t *events_since(const struct events *e, int64_t since, size_t limit);

/* Calls fn for each event of a file. */
void events_each(const char *path, events_fn fn, void *arg);

/* As events_since(), from a file alone. Skips lines that are no events. Owned array, empty when
 * there is no file. */
json_t *events_read_file(const char *path, int64_t since, size_t limit);

/* The Failure objects that the file's "worker-failed" events carry, of one attempt, or (-1) of the
 * newest that has any. Owned array. */
json_t *events_failures(const char *path, int attempt);
/* The same, followed by those of "worker-failed-once" events, after which the worker was started
 * again. */
json_t *events_failures_all(const char *path, int attempt);
