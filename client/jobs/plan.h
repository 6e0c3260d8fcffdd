/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Decides what has to be done so that the jobs are as their files say, and in which order. A job
 * belongs to a file if the origin in its specification is the file's path. Pure.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum plan_action {
	PLAN_KEEP,    /* it is active, as its file says */
	PLAN_START,   /* there is no run of it that counts */
	PLAN_RESTART, /* it is active, and its file has changed */
	PLAN_STOP,    /* it is active, and its file is gone */
	PLAN_LEAVE,   /* it has ended, and is not started again */
	PLAN_TAKEN,   /* an active job has its name that was not started from its file */
	PLAN_CIRCLE,  /* after a boot: it waits for others that wait for it, and is not started */
};

/* A job file. */
struct plan_file {
	char *path;
	json_t *spec; /* with all defaults and its origin; has a name */
};

/* The newest run of a job. */
struct plan_run {
	json_t *job;  /* Job */
	json_t *spec; /* with all defaults; NULL: not known */
};

struct plan_step {
	enum plan_action action;
	const char *name;	      /* borrowed from the file or the run */
	const struct plan_file *file; /* NULL: it is gone */
	const struct plan_run *run;   /* NULL: there is none */
	json_t *diff;		      /* PLAN_RESTART: rows of spec_diff() */
	char *circle;		      /* PLAN_CIRCLE: the message, owned */
};

struct plan_input {
	const struct plan_file *files;
	size_t n_files;
	const struct plan_run *runs;
	size_t n_runs;
	const char *dir;    /* files that are gone were directly below it */
	char *const *wrong; /* paths of files whose jobs are left alone, NULL-ended, or NULL */
	bool boot; /* the host has booted since: runs that a person stopped, or that failed,
		    * are started again; those that succeeded are not */
};

struct plan {
	struct plan_step *steps; /* stops first, then in the order in which they are to be done */
	size_t n;
};

/* Borrows what in has for the life of ret. -EINVAL with err where two files have one name, or jobs
 * wait for each other in a circle, but not after a boot; -ENOMEM. Free ret with plan_fini() in any
 * case. */
_must_check_ int plan_make(const struct plan_input *in, struct plan *ret, struct error *err);
void plan_fini(struct plan *p);

/* Whether a run is what the file f asks for. 1, 0 or -ENOMEM. */
_must_check_ int plan_is_as(const struct plan_run *run, const struct plan_file *f);

/* The names that the job of spec waits for: the key "after" or "needs", NULL where it has none. */
const json_t *plan_names(const json_t *spec, const char *key);
