/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What beats.c (looking) and beats_dump.c (saving, and what follows) share. */

#include "agent/agent.h"
#include "agent/heartbeat.h"
#include "agent/progress.h"

enum { BEATS_DUMP_TASKS = 64 }; /* that are saved at once */

/* What is known of the process in one slot. */
struct beat {
	uint64_t token; /* of that process */
	bool on;
	bool failing;	/* told so; waits for what is saved of it */
	uint64_t found; /* counts what failed, in the order in which it was found */
	char why[sizeof(((struct task *)0)->blame)];
	struct spec_heartbeat spec; /* what can be watched of it */
	struct heartbeat heartbeat;
	struct progress progress;
};

struct beats {
	struct agent *a;
	struct loop_timer *timer;
	regex_t pattern;
	bool has_pattern;
	struct beat *
		*items; /* by slot, NULL where nothing was watched yet; each stays where it is */
	size_t n;
	uint64_t found; /* so many have failed until now */
	int holding;	/* dumps that run: nobody is looked at meanwhile */
};

/* What is known of the process in t's slot, or NULL. */
struct beat *beats_find(const struct beats *bs, const struct task *t);
/* A dump begins, or has ended: the agent's debuggers hold workers, and others wait for these. */
void beats_hold(struct beats *bs);
void beats_let_go(struct beats *bs);
/* Saves what is failing, and then ends it, or leaves it where it is reported only. */
void beats_save(struct beats *bs);
/* Deferred, once for all that start in a turn. */
void beats_started(void *arg);
