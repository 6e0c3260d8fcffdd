/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Job files: read, checked, and all that is wrong with one told at once. Prints nothing. Called by
 * validate, and by run and start for --spec.
 */

#include "common/cleanup.h"
#include "common/error.h"

#include <jansson.h>

struct job_file {
	json_t *doc;	 /* owned; relative paths are absolute */
	char **problems; /* lines for people, NULL-ended: "file:line:column: path: text" */
};

/*
 * Reads a file ("-": standard input) and checks it. Its relative paths are those from its own
 * directory, for "-" from the current one. Returns 0 with the document, -EBADMSG with problems
 * alone, also where it cannot be read, or -ENOMEM; ret is to be freed by job_file_fini() always.
 */
_must_check_ int job_file_load(const char *path, struct job_file *ret);
void job_file_fini(struct job_file *f);
