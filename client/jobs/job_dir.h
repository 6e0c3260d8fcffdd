/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The files NAME.yaml, NAME.yml and NAME.json of a directory of jobs; NAME.yaml.disabled and so on
 * are not read. Each is a job file (elasticd-job(5)); its job is called NAME unless it says
 * otherwise.
 */

#include "client/jobs/plan.h"

#define JOB_DIR_DISABLED ".disabled"

struct job_dir {
	struct plan_file *files; /* by the names of the files */
	size_t n;
	char **problems; /* lines for people, NULL-ended, or NULL: of files that are wrong */
	size_t n_problems;
	char **wrong; /* the paths of those files, NULL-ended, or NULL */
};

/* /etc/elasticd/jobs.d for root, else jobs.d beside the user's elasticd.conf. Owned or NULL. */
char *job_dir_default(void);

/*
 * Reads all files; a directory that is not there has none. A file that others than root and the
 * caller may write is refused. Returns 0, also where files are wrong, or a negative errno with err;
 * free ret with job_dir_fini() in any case.
 */
_must_check_ int job_dir_read(const char *dir, struct job_dir *ret, struct error *err);
void job_dir_fini(struct job_dir *d);

/* The name that a file of a directory of jobs gives its job: "train" for "train.yaml" and
 * "train.yaml.disabled"; owned, NULL for other files or without memory. ret_disabled may be NULL.
 */
char *job_dir_name(const char *file, bool *ret_disabled);

/* The name of the job of a file of dir whose name gives it the name stem: what the file says, or
 * stem, also where it cannot be read; owned, NULL without memory. */
char *job_dir_job(const char *dir, const char *file, const char *stem);
