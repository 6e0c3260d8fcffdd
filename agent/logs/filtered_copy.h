/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The filtered copies (filtered_stdout.log, filtered_stderr.log): a file that gets the lines of all
 * ranks that contain one of some texts, each with its prefix. The streams of an attempt share it. A
 * failure to write ends the copy with one message; workers and other logs go on.
 */

#include "common/base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>

struct log_copy;

/* error: errno of the first write that failed. */
typedef void (*log_copy_fn)(void *arg, const char *path, int error);

/* Opens (append) path; texts is NULL-ended and borrowed. Returns 0 or a negative errno. */
_must_check_ int log_copy_new(
	const char *path, char *const *texts, log_copy_fn fn, void *arg, struct log_copy **ret);
struct log_copy *log_copy_ref(struct log_copy *c);
/* The last call writes what is buffered and closes. */
struct log_copy *log_copy_unref(struct log_copy *c);
DEFINE_CLEANUP(struct log_copy *, log_copy_unref)

/* One stream's state: whether the present line was chosen. */
struct log_copy_line {
	bool chosen;
};

/* A piece of a line; flags as in line_splitter.h. Of a line longer than one piece, the pieces
 * before the first that contains a text are not copied. */
void log_copy_put(struct log_copy *c, struct log_copy_line *line, const char *prefix,
	size_t prefix_len, const char *data, size_t len, unsigned flags);
void log_copy_flush(struct log_copy *c);
