/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Signs of progress that need no call by the worker: its logs grow, a line in them matches, a file
 * changes. progress_check() looks for them by stat() and by reading new bytes, and counts them.
 */

#include "common/base/cleanup.h"
#include "common/spec/spec.h"

#include <regex.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

enum { PROGRESS_LINE = 4096 }; /* only this much of a line is compared */

/* A file that grows, and may be replaced. */
struct progress_file {
	char *path; /* owned; NULL: none */
	bool aside; /* may be on another file system than the logs, which may hang by itself */
	struct stat last;
	bool seen;
	off_t offset; /* read up to here, to match lines */
	char line[PROGRESS_LINE];
	size_t len; /* of an unfinished line */
};

struct progress {
	const regex_t *pattern; /* borrowed; NULL: none */
	struct progress_file logs[2], file;
	uint64_t log_changes, matches, file_changes;
	int64_t first_number,
		last_number; /* that the pattern's first group has matched; -1: none */
};

/* paths may be NULL. The present state of the files is the start; fresh: the logs belong to this
 * process from their beginning. Returns 0 or -ENOMEM. */
_must_check_ int progress_init(struct progress *p, const char *const logs[2], const char *file,
	const regex_t *pattern, bool fresh);
void progress_fini(struct progress *p);

/* Updates the three counts. */
void progress_check(struct progress *p);
