/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The jobs that a verb for several jobs acts on: names and runs as the user gave them, names with
 * "*" (fnmatch(3)), and --all. Asks elasticd for its jobs only for the last two. Called by stop,
 * restart, wait and rm.
 */

#include "client/base/ctl.h"

/* The jobs that a pattern and --all choose from. */
enum job_names_choice {
	JOB_NAMES_ACTIVE, /* jobs that are active, by name */
	JOB_NAMES_NEWEST, /* a pattern: the newest run of each job, by name; --all: as above */
	JOB_NAMES_ENDED,  /* runs that have ended, by their identifiers */
};

struct job_names {
	char **names; /* NULL-ended, without duplicates */
	int n;
	bool chosen; /* by a pattern or --all, so that the user may not know how many there are */
};

/*
 * The jobs that args name, for a verb with the option "all"; workers after a slash stay part of the
 * name. A pattern that no job matches is an error, --all without jobs is not. Returns 0 with ret to
 * be freed by job_names_fini(), or an exit status.
 */
_must_check_ int job_names_get(
	struct ctl *ctl, const struct args *args, enum job_names_choice of, struct job_names *ret);
/* All runs that ended longer than older_ms ago. Returns as job_names_get(). */
_must_check_ int job_names_older(struct ctl *ctl, int64_t older_ms, struct job_names *ret);
void job_names_fini(struct job_names *names);

/* Adds those of jobs (an answer of List, borrowed) that pattern matches. Returns how many match, or
 * -ENOMEM. Pure. */
_must_check_ int job_names_match(
	struct job_names *names, const char *pattern, const json_t *jobs, enum job_names_choice of);
