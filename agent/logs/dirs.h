/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The directory tree of a run's logs. Makes directories, opens files, and keeps a small worker.json
 * in each rank's directory, from which readers learn which worker wrote the logs.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* Makes <root>/<run> (0750) with its parents, and the link <root>/<job>.latest; a link that cannot
 * be made is no error. Returns 0, the run's absolute path (owned), and a descriptor with a lock on
 * it, which the agent holds until the run is over (owned; -1 where the file system has no locks).
 * -ENOTDIR when root is a file. */
_must_check_ int log_dirs_make_run(const char *root, const char *job, const char *run, char **ret,
	int *ret_lock, struct error *err);

/* Makes directory path (0750); one that exists is fine. Returns 0 or a negative errno. */
_must_check_ int log_dirs_make(const char *path);

struct log_worker_info {
	char role[64];
	int index, rank, local_rank;
	bool stamped; /* lines of its files begin with a stamp (timestamp.h) */
	bool merged;  /* stdout.log holds both streams */
};

/* Replaces <dir>/worker.json. Returns 0 or a negative errno. */
_must_check_ int log_dirs_write_worker(const char *dir, const struct log_worker_info *info);
/* Reads all of <dir>/worker.json but merged. Without one: role "worker", and local_rank for all
 * numbers. */
void log_dirs_read_worker(const char *dir, int local_rank, struct log_worker_info *ret);

/* Opens for appending, 0640, never through a link. Returns a descriptor or a negative errno. */
_must_check_ int log_dirs_open_append(const char *path);

/* Renames the error.json at path, which an earlier process wrote, to error.json.1, .2 and so on. */
void log_dirs_move_error_file(const char *path);

/* The largest N of <run_dir>/attempt_N, and the smallest after a given one; -1: there is none. */
int log_dirs_last_attempt(const char *run_dir);
int log_dirs_next_attempt(const char *run_dir, int after);
