/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The latest numbers of each active job, asked of their agents. Few agents are asked at a time, and
 * one that does not answer holds up no reader: its job has no numbers then.
 */

#include "common/base/cleanup.h"
#include "common/loop/loop.h"
#include "daemon/jobs/job.h"
#include "daemon/jobs/registry.h"
#include "daemon/metrics/numbers.h"

#include <stdbool.h>
#include <stdint.h>

enum { READING_LABELS_MAX = 320 };

struct reading {
	TAILQ_ENTRY(reading) link;
	struct readings *all;
	struct job *job;
	struct job_watch watch;
	struct agent_call *call; /* NULL: is not being asked */
	bool known, fresh;	 /* has numbers; its job has not changed since */
	bool late;		 /* readers wait no longer for the call's answer */
	uint64_t asked_ms;
	struct job_numbers numbers;
	char labels[READING_LABELS_MAX]; /* name and user */
};

struct readings;

/* done(arg) runs from the loop when all that readings_refresh() asked have answered, or time is
 * up. */
_must_check_ int readings_new(struct loop *loop, struct registry *registry, loop_fn done, void *arg,
	struct readings **ret);
struct readings *readings_free(struct readings *r);
DEFINE_CLEANUP(struct readings *, readings_free)

/* Begins to ask, unless it does already. Returns whether done will run: not where the numbers are
 * fresh, or there is no agent to ask. */
bool readings_refresh(struct readings *r);

struct reading *readings_first(struct readings *r);
struct reading *readings_next(struct reading *r);
