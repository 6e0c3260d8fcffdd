/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads one log with all its closed parts as one stream of bytes, from any place on, and finds
 * where its last lines begin. Parts may be rotated, compressed and removed meanwhile. Blocks only
 * as files do.
 */

#include "agent/logs/part_counts.h"
#include "agent/logs/time_index.h"
#include "agent/logs/zstd.h"
#include "common/base/cleanup.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct log_source {
	char *path;
	int fd;	    /* of the present part; -1: none is open */
	int number; /* the part's number; for the live file the one it will get */
	bool live;
	int64_t offset; /* in the part */
	struct log_zstd *zstd;
	struct log_index_table index; /* of the part */
	struct log_missing missing;   /* before this part; the caller resets it */
};

/* path is that of the live file; copied. Opens nothing. Returns 0 or -ENOMEM. */
_must_check_ int log_source_init(struct log_source *s, const char *path);
void log_source_fini(struct log_source *s);

/* Goes to the start of part number (0: the live file), or of the oldest part. Returns 0 or a
 * negative errno; -ENOENT: there is none. */
_must_check_ int log_source_open(struct log_source *s, int number);
_must_check_ int log_source_open_oldest(struct log_source *s);

/* Reads at most len bytes, all written in the same second of the index; time and range as in
 * log_index_time(). Returns how many, 0 at the end of the part, or a negative errno. */
_must_check_ ssize_t log_source_read(
	struct log_source *s, char *buf, size_t len, int64_t *ret_time_us, int64_t *ret_range_us);

/* At the end of a part: returns true when there is more to read, in this part or in the next, and
 * moves there. */
_must_check_ bool log_source_next(struct log_source *s);

/* Searches for the start of the last n lines, in steps, because it may have to read much. */
struct log_finder {
	const struct log_source *log; /* only its path is used */
	int *parts;		      /* 0 is the live file, first and newest */
	size_t n_parts, at;
	int64_t left; /* lines still to find */
	int fd;
	struct log_zstd *zstd;
	int64_t pos; /* plain: the search goes on backwards; compressed: lines counted */
	/* The answer */
	int number; /* the part, 0: live */
	int64_t offset;
	int64_t skip; /* lines to skip from there */
};

_must_check_ int log_finder_init(struct log_finder *f, const struct log_source *log, int64_t n);
void log_finder_fini(struct log_finder *f);
/* Returns 1 when the answer is there, 0 to ask for another call, or a negative errno. */
_must_check_ int log_finder_step(struct log_finder *f);
