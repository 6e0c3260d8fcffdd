/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* io.elasticd.Manager.Line objects. Pure. */

#include "agent/log_dirs.h"
#include "agent/log_parts.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a reader hands out: a line, or a part of one. */
struct log_line {
	const char *data; /* borrowed */
	size_t len;
	int64_t time_us;		   /* -1: not known */
	int64_t range_us;		   /* it was written within so much after time_us */
	bool partial;			   /* its end was not seen yet */
	const struct log_missing *missing; /* no line: what is missing here; else NULL */
};

/* *ret_size: at most so many bytes as JSON text. Returns owned, NULL without memory. */
json_t *log_line_json(const struct log_task_info *who, int attempt, int std,
	const struct log_line *line, size_t *ret_size);
