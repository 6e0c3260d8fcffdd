/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads and checks job files, and reports all that is wrong with one at once. Prints nothing.
 * Called by validate, and by run and start for --spec.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"

#include <jansson.h>

struct job_file {
	json_t *doc;	 /* owned; relative paths are absolute */
	char **problems; /* lines for people, NULL-ended: "file:line:column: path: text" */
};

/* How a file is checked. */
enum job_file_check {
	JOB_FILE_WHOLE,
	JOB_FILE_PART, /* flags follow, which may say where several hosts meet */
};

/*
 * Reads a file ("-": standard input) and checks it. Relative paths in it start from its directory,
 * for "-" from the current one. Returns 0 with the document, -EBADMSG with problems alone, also if
 * it cannot be read, or -ENOMEM; always free ret with job_file_fini().
 */
_must_check_ int job_file_load(const char *path, enum job_file_check wanted, struct job_file *ret);
void job_file_fini(struct job_file *f);

/* The length of name without the ending of a job file (.yaml, .yml, .json); -1: it has none. */
ssize_t job_file_stem(const char *name);
