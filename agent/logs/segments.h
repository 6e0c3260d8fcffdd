/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Names of a rotated log's closed parts: stdout.log.1, .2, ... in the order of writing, with .zst
 * appended when compressed. The live file is stdout.log, always the newest.
 */

#include "common/base/cleanup.h"

#include <stddef.h>

struct log_segments {
	int *numbers; /* ascending, each once */
	size_t n;
};

/* The closed parts of path. Returns 0 or a negative errno. */
_must_check_ int log_segments_list(const char *path, struct log_segments *ret);
void log_segments_fini(struct log_segments *s);

/* Opens part number of path, compressed or not. Returns a descriptor, or a negative errno. */
_must_check_ int log_segments_open(const char *path, int number, int *ret_compressed);

/* Removes parts from first to last, with their time index. */
void log_segments_prune(const char *path, int first, int last);
