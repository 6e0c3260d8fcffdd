/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * When which part of a log file was written: a sparse index beside a file that the worker writes
 * itself, in records of offset and time, both 64 bits, little-endian. What lies at offset and
 * beyond was written at time or later, what lies before it at time or earlier. While the file
 * grows, at most two records a second are added, the times of the first and the last write in it;
 * an idle file costs nothing. The same look sees to it that there is room on the disk
 * (log_space.h).
 */

#include "common/cleanup.h"
#include "common/loop.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct log_indexes;
struct log_index;

enum { LOG_INDEX_BURST_US = 100000, LOG_INDEX_TICK_US = 10000 };
enum { LOG_INDEX_RECORD = 16, LOG_INDEX_EVERY_MS = 1000, LOG_INDEX_RETRY_MS = 5000 };

struct log_index_hooks {
	/* The disk has become full for the file at path, or has room again. */
	void (*full)(void *arg, int rank, const char *path, bool full);
	/* The file is not there any more under its name. Called once for a file. */
	void (*vanished)(void *arg, int rank, const char *path);
	void *arg;
};

_must_check_ int log_indexes_new(
	struct loop *loop, const struct log_index_hooks *hooks, struct log_indexes **ret);
/* Frees its indexes, too. */
struct log_indexes *log_indexes_free(struct log_indexes *x);
DEFINE_CLEANUP(struct log_indexes *, log_indexes_free)

/* Begins to index path, an existing file. Its index is beside it, .idx in place of .log. Returns 0,
 * -ENOSPC when the disk is full already (then there is none), or another negative errno. */
_must_check_ int log_index_add(
	struct log_indexes *x, const char *path, int rank, struct log_index **ret);
/* Nobody writes the file any more. */
struct log_index *log_index_free(struct log_index *i);

/* "stdout.log" -> "stdout.idx", in buf. Returns buf, or NULL when it does not fit. */
char *log_index_path(const char *path, char *buf, size_t size);

/* Adds a record to the index file at path. Returns 0 or a negative errno. */
int log_index_append(const char *path, off_t offset, uint64_t real_us);

/* A read index, for finding places. */
struct log_index_table {
	struct log_index_entry {
		int64_t offset, time_us;
	} * entries; /* both ascending */
	size_t n;
};

/* Reads the index file; one that is missing or broken is empty from there on. -ENOMEM. */
_must_check_ int log_index_load(const char *path, struct log_index_table *ret);
void log_index_table_fini(struct log_index_table *t);

/* From which offset on there may be bytes that were written at time_us or later. */
int64_t log_index_since(const struct log_index_table *t, int64_t time_us);
/* When the byte at offset was written, at the earliest; -1: not known. *ret_range_us: and within so
 * much after that. */
int64_t log_index_time(const struct log_index_table *t, int64_t offset, int64_t *ret_range_us);
/* A time to put the line at offset into an order with other logs' by: where it is known less
 * exactly than to LOG_INDEX_BURST_US, as if all bytes in that time had come evenly; what came in
 * one burst stays together. -1: not known. */
int64_t log_index_order(const struct log_index_table *t, int64_t offset);
