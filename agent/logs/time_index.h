/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * When each part of a log file was written: a sparse index beside a file that the worker writes
 * itself, in records of offset and time, 64 bits each, little-endian. Bytes at offset and beyond
 * were written at time or later, bytes before it at time or earlier. While the file grows, at most
 * two records a second are added, with the times of that second's first and last write; an idle
 * file costs nothing. Each check of the file also reserves room on the disk (disk_reserve.h).
 */

#include "common/base/cleanup.h"
#include "common/loop/loop.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct log_indexes;
struct log_index;

enum { LOG_INDEX_BURST_US = 100000, LOG_INDEX_TICK_US = 10000 };
enum { LOG_INDEX_EVERY_MS = 1000, LOG_INDEX_RETRY_MS = 5000 };

struct log_index_hooks {
	/* The disk has become full for the file at path, or (full false) has room again. */
	void (*full)(void *arg, int rank, const char *path, bool full);
	/* The file is no longer there under its name. Called once per file. */
	void (*vanished)(void *arg, int rank, const char *path);
	void *arg;
};

_must_check_ int log_indexes_new(
	struct loop *loop, const struct log_index_hooks *hooks, struct log_indexes **ret);
/* Frees its indexes, too. */
struct log_indexes *log_indexes_free(struct log_indexes *x);
DEFINE_CLEANUP(struct log_indexes *, log_indexes_free)

/* Begins to index the existing file at path. The index has .idx in place of .log. Returns 0,
 * -ENOSPC when the disk is full already (then there is no index), or another negative errno. */
_must_check_ int log_index_add(
	struct log_indexes *x, const char *path, int rank, struct log_index **ret);
/* The caller knows that the worker is gone: records the end, and frees the index. */
struct log_index *log_index_free(struct log_index *i);

/* Adds a record to the index of the live log file at path. */
void log_index_append(const char *path, off_t offset, uint64_t real_us);

/* An index as read from its file, for finding places. */
struct log_index_table {
	struct log_index_entry {
		int64_t offset, time_us;
	} * entries; /* both ascending */
	size_t n;
};

/* Reads the index of part number of the log at path; 0: of the live file. Without one, or without
 * memory, ret is empty; a broken one ends where it is broken. */
void log_index_load(const char *path, int number, struct log_index_table *ret);
void log_index_table_fini(struct log_index_table *t);

/* The first offset at which there may be bytes written at time_us or later. */
int64_t log_index_since(const struct log_index_table *t, int64_t time_us);
/* The earliest time at which the byte at offset can have been written; -1: not known. It was
 * written at most *ret_range_us after that. */
int64_t log_index_time(const struct log_index_table *t, int64_t offset, int64_t *ret_range_us);
/* The offset of the first record behind offset, INT64_MAX without one. */
int64_t log_index_next(const struct log_index_table *t, int64_t offset);
/* A time by which the line at offset can be sorted among lines of other logs; -1: not known. Where
 * the index is coarser than LOG_INDEX_BURST_US the bytes count as spread evenly over the time;
 * shorter intervals are one burst and stay together. */
int64_t log_index_order(const struct log_index_table *t, int64_t offset);
