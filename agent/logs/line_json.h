/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* io.elasticd.Manager.Line objects. Pure. */

#include "agent/logs/dirs.h"
#include "agent/logs/part_counts.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A line, or a part of one, as a reader gets it. */
struct log_line {
	const char *data; /* borrowed */
	size_t len;
	int64_t time_us;		   /* -1: not known */
	int64_t range_us;		   /* written at most this long after time_us */
	bool partial;			   /* the line's end has not been read yet */
	const struct log_missing *missing; /* not NULL: a gap in place of a line */
};

/* *ret_size: an upper bound of its size as JSON text. Returns owned, NULL without memory. */
json_t *log_line_json(const struct log_worker_info *worker, int attempt, int std,
	const struct log_line *line, size_t *ret_size);
