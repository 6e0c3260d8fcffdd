/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A file that gets a copy of the lines that contain one of some texts, of all ranks, with their
 * prefix (filtered_stdout.log, filtered_stderr.log). Shared by the streams of an attempt. A failure
 * to write ends it, with one message; workers and other logs go on.
 */

#include "common/cleanup.h"

#include <stddef.h>

struct log_filter;

/* error: errno of the first write that failed. */
typedef void (*log_filter_fn)(void *arg, const char *path, int error);

/* Opens (append) path; texts is NULL-ended and borrowed. Returns 0 or a negative errno. */
_must_check_ int log_filter_new(
	const char *path, char *const *texts, log_filter_fn fn, void *arg, struct log_filter **ret);
struct log_filter *log_filter_ref(struct log_filter *f);
/* Writes what is there when the last reference goes. */
struct log_filter *log_filter_unref(struct log_filter *f);
DEFINE_CLEANUP(struct log_filter *, log_filter_unref)

/* One stream's state: whether the line that goes on was chosen. */
struct log_filter_line {
	char chosen;
};

/* A piece of a line; flags as in lines.h. Of a line longer than one piece, the copy begins with the
 * first piece that has one of the texts. */
void log_filter_put(struct log_filter *f, struct log_filter_line *line, const char *prefix,
	size_t prefix_len, const char *data, size_t len, unsigned flags);
void log_filter_flush(struct log_filter *f);
