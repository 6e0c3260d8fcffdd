/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The files of a log. Its closed parts are stdout.log.1, .2, ... in the order of writing, with .zst
 * appended when compressed; the live file is stdout.log, always the newest. Beside them are
 * stdout.parts (part_counts.h) and, for each part, stdout.idx, stdout.idx.1, ... (time_index.h).
 */

#include "common/base/cleanup.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct log_parts {
	int *numbers; /* ascending, each once */
	size_t n;
};

/* The closed parts of path. Returns 0 or a negative errno. */
_must_check_ int log_parts_list(const char *path, struct log_parts *ret);
void log_parts_fini(struct log_parts *s);

/* Opens part number of path, compressed or not. Returns a descriptor, or a negative errno. */
_must_check_ int log_parts_open(const char *path, int number, int *ret_compressed);

/* Fills buf with the name of the file of that kind beside part number of the log at path (0: the
 * live file): "stdout.log" -> "stdout.idx" or "stdout.idx.2". Returns false when path does not end
 * in ".log" or the name is too long. */
bool log_parts_beside(const char *path, const char *kind, int number, char buf[PATH_MAX]);

/* Removes parts from first to last, with their time index. */
void log_parts_prune(const char *path, int first, int last);
