/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The failures of one attempt: gathered from the workers' ends, their error.json and the tails of
 * their stderr, ordered with the root cause first.
 */

#include "agent/policy/error_file.h"
#include "agent/policy/root_cause.h"
#include "agent/policy/worker.h"

#include <jansson.h>

struct failure {
	struct worker *worker; /* borrowed */
	struct root_cause_place place;
	bool collateral;
	int status;	     /* the job's exit status, where this is its root cause */
	bool has_file;	     /* file is filled */
	bool application;    /* the program itself reported the failure */
	const char *problem; /* why error.json is not usable; static, or NULL */
	struct error_file file;
};

struct failures {
	struct failure *items; /* root cause first; then by time; then the collateral */
	size_t n;
	bool has_root;
};

/* The failures of all workers that have ended, for which it reads their error.json, and of those
 * that still run but hang or have reported an error. now_us: the present time; 0: all have ended.
 */
_must_check_ int failures_known(
	struct failures *ret, struct worker *workers, int n_workers, int64_t now_us);
/* The failure of one worker that has ended. */
_must_check_ int failures_collect_one(struct failures *ret, struct worker *w);
void failures_fini(struct failures *f);

/* One io.elasticd.Manager.Failure; stderr_tail (array of strings) is taken, may be NULL. */
json_t *failure_json(const struct failure *f, const char *host, int attempt, json_t *stderr_tail);

/* The failure's message in one line; text of at least 256 bytes. */
void failure_message(const struct failure *f, char *text, size_t size);

/* The worker, its message and how its process ended, in one line; text of at least 512 bytes. */
void failure_text(const struct failure *f, char *text, size_t size);
