/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Signs of progress that a worker gives without knowing of it: its logs grow, a line in them
 * matches, a file changes. Looked at when asked, by stat() and by reading what is new; counts up.
 */

#include "common/cleanup.h"
#include "common/spec.h"

#include <regex.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

enum {
	PROGRESS_LINE = 4096,	     /* bytes of a line that are compared */
	PROGRESS_AT_ONCE = 16 << 20, /* bytes that one look reads of a file, the newest */
	PROGRESS_ENTRIES = 10000,    /* of a directory and those below it that one look takes in */
	PROGRESS_DEPTH = 4,	     /* directories below the one that is watched */
};

/* One file that grows, and may be replaced. */
struct progress_file {
	char *path; /* owned; NULL: none */
	struct stat last;
	bool seen;
	off_t offset; /* read up to here, for the pattern */
	char line[PROGRESS_LINE];
	size_t len; /* of a line that has not ended */
};

struct progress {
	const regex_t *pattern; /* borrowed; NULL: none */
	struct progress_file logs[2], file;
	uint64_t log_changes, matches, file_changes;
};

/* paths may be NULL. What is there by now is the state to start from; fresh: the logs are this
 * process's own from their beginning. Returns 0 or -ENOMEM. */
_must_check_ int progress_init(struct progress *p, const char *const logs[2], const char *file,
	const regex_t *pattern, bool fresh);
void progress_fini(struct progress *p);

/* Brings the three counts up to date. */
void progress_look(struct progress *p);
