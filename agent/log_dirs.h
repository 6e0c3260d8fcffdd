/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The directory tree of a run's logs: makes directories, opens files, and keeps in each rank's
 * directory a small task.json that says whose logs these are, for readers that know nothing else.
 */

#include "common/cleanup.h"
#include "common/error.h"

#include <stdbool.h>
#include <stddef.h>

/* Makes <root>/<run> (0750) with its parents, and the link <root>/<job>.latest. Returns 0 and its
 * absolute path (owned) and a lock on it, to be held for as long as the run is not over (owned, -1
 * where the file system knows no locks); -ENOTDIR when root is a file. A link that cannot be made
 * is no error. */
_must_check_ int log_dirs_make_run(const char *root, const char *job, const char *run, char **ret,
	int *ret_lock, struct error *err);

/* Makes path (0750); that it is there already is fine. Returns 0 or a negative errno. */
_must_check_ int log_dirs_make(const char *path);

struct log_task_info {
	char role[64];
	int index, rank, local_rank;
	bool stamped; /* lines of its files begin with a stamp (log_stamp.h) */
	bool merged;  /* stdout.log holds both streams */
};

/* Replaces <dir>/task.json. Returns 0 or a negative errno. */
_must_check_ int log_dirs_write_task(const char *dir, const struct log_task_info *info);
/* Reads it; without one, what dir's name tells: role "worker", all numbers local_rank. */
void log_dirs_read_task(const char *dir, int local_rank, struct log_task_info *ret);

/* Opens for appending, 0640, never through a link. Returns a descriptor or a negative errno. */
_must_check_ int log_dirs_open_append(const char *path);

/* Moves <dir>/error.json of an earlier process out of the way, to error.json.1 and so on. */
void log_dirs_keep_error_file(const char *path);

/* The largest N of <dir>/attempt_N, or -1. */
int log_dirs_last_attempt(const char *run_dir);

/* N of "attempt_N", else -1. */
int log_dirs_attempt_number(const char *name);
