/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What happened to a job, as numbered Event objects: kept in memory (the newest), appended to the
 * files events.jsonl of the run's log directory and of its record, and announced to listeners. A
 * file that cannot be written costs nothing but its lines: it is tried again with the next event.
 */

#include "common/base/cleanup.h"

#include <jansson.h>
#include <stdint.h>

struct events;

/* Called after each event, or for each; event is borrowed. */
typedef void (*events_fn)(void *arg, const json_t *event);

/* dirs: of the run's logs, whose file system may hang, and of its record; NULL where not wanted.
 * seq: the last number used before. */
_must_check_ int events_new(const char *job, const char *run, const char *const dirs[2],
	int64_t seq, events_fn fn, void *arg, struct events **ret);
struct events *events_free(struct events *e);
DEFINE_CLEANUP(struct events *, events_free)

/* attempt and rank: -1 when they do not apply. data is taken, may be NULL. */
void events_add(struct events *e, const char *event, int attempt, int rank, json_t *data,
	const char *fmt, ...) __attribute__((format(printf, 6, 7)));

int64_t events_last_seq(const struct events *e);

/* Events with seq > since, oldest first, from memory and where that does not reach back far enough
 * from the files; at most limit. Returns an owned array. */
json_t *events_since(const struct events *e, int64_t since, size_t limit);

/* Calls fn with each event of a file. */
void events_each(const char *path, events_fn fn, void *arg);

/* As events_since() from a file alone. Lines that are no events are passed over. Owned array, empty
 * when there is no file. */
json_t *events_read_file(const char *path, int64_t since, size_t limit);

/* The Failure objects that the file's "worker-failed" events carry, of one attempt, or (-1) of the
 * newest that has any. Owned array. */
json_t *events_failures(const char *path, int attempt);
/* And after them those of "worker-failed-once", which a restart of the worker alone made good. */
json_t *events_failures_all(const char *path, int attempt);
