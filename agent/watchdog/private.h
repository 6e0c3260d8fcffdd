/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Shared by watchdog.c (checks) and on_hang.c (dumps, and what follows). */

#include "agent/watchdog/heartbeat.h"
#include "agent/watchdog/progress.h"
#include "agent/watchdog/watchdog.h"

enum { BEATS_DUMP_TASKS = 64 }; /* saved at once */

/* The checks of the process in one slot. */
struct beat {
	uint64_t token; /* of this process */
	bool on;
	bool failing;	/* it has failed; it ends once it is saved */
	uint64_t found; /* position among the failures, in the order in which they were found */
	char why[sizeof(((struct task *)0)->blame)];
	struct spec_heartbeat spec; /* the checks that this worker can show */
	struct heartbeat heartbeat;
	struct progress progress;
};

struct beats {
	struct agent *a;
	struct loop_timer *timer;
	struct hang_dumps *dumps;
	regex_t pattern;
	bool has_pattern;
	struct beat **items; /* by slot; NULL: never watched. Entries never move */
	size_t n;
	uint64_t found; /* number of failures so far */
	int holding;	/* dumps that run: nothing is checked meanwhile */
};

/* The checks of the process in t's slot, or NULL. */
struct beat *beats_find(const struct beats *bs, const struct task *t);
/* Around a dump: the agent's debuggers stop workers, and other workers wait for these. */
void beats_hold(struct beats *bs);
void beats_let_go(struct beats *bs);
/* Saves the failed workers, and then ends them, or, where failures are only reported, leaves them.
 */
void beats_save(struct beats *bs);
/* Deferred, so that it runs once for all workers that start in a turn. */
void beats_started(void *arg);
