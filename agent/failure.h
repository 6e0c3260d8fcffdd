/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The failures of one incarnation: gathered from the tasks' ends, their error.json and the tails of
 * their stderr, ordered with the root cause first.
 */

#include "agent/errorfile.h"
#include "agent/rootcause.h"
#include "agent/task.h"

#include <jansson.h>

struct failure {
	struct task *task; /* borrowed */
	struct rootcause when;
	bool collateral;
	bool has_file;	     /* file is filled */
	bool application;    /* the program itself said what went wrong */
	const char *problem; /* why error.json was not usable; static, or NULL */
	struct errorfile file;
};

struct failures {
	struct failure *items; /* root cause first; then by time; then the collateral */
	size_t n;
	bool has_root;
};

/* Looks at all tasks; reads error.json files. An empty result where nothing failed. */
_must_check_ int failures_collect(struct failures *ret, struct task *tasks, int n_tasks);
/* The same of one task that has ended. */
_must_check_ int failures_collect_one(struct failures *ret, struct task *t);
/* Puts an application's error first, if there is one that is not collateral. */
void failures_prefer_application(struct failures *f);
void failures_fini(struct failures *f);

/* One io.elasticd.Manager.Failure; stderr_tail (array of strings) is taken, may be NULL. */
json_t *failure_json(const struct failure *f, const char *host, int attempt, json_t *stderr_tail);

/* What the failure says in one line; text of at least 256 bytes. */
void failure_message(const struct failure *f, char *text, size_t size);
