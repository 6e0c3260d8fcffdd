/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Makes the job of one program of supervisord: [program:x], [eventlistener:x] or [fcgi-program:x].
 * Pure. Each process of a program (numprocs) becomes a worker that is started again alone, so that,
 * as with supervisord, no process ends another one.
 */

#include "client/import/sections.h"

#include <jansson.h>
#include <stdbool.h>

struct import_job {
	char *name;
	json_t *doc;   /* a job specification */
	json_t *notes; /* by "restart.policy" and so on: what of the program it comes from */
	bool disabled; /* supervisord does not start it by itself */
	char *from;    /* "[program:x], /etc/x.conf:3" */
	char *group;   /* of supervisord, or NULL */
};

/* Names sections that belong to no program and have no counterpart, and finds out when each program
 * starts. */
void import_begin(struct sections *all, sections_problem_fn fn, void *arg);
/* After import_begin(). fn: called for all of s that has no counterpart. Returns 0, -EINVAL where
 * the program has no command that can be read (a problem, too), or -ENOMEM; free ret in any case.
 */
_must_check_ int import_job_make(const struct sections *all, struct section *s,
	sections_problem_fn fn, void *arg, struct import_job *ret);
void import_job_fini(struct import_job *j);
