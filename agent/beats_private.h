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
	bool failing; /* told so; waits for what is saved of it */
	bool saved;   /* is among what is being saved, or was */
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
	bool saving;
};

/* What is known of the process in t's slot, or NULL. */
struct beat *beats_find(const struct beats *bs, const struct task *t);
/* Saves what is failing, and then declares it failed, or reports it only. */
void beats_save(struct beats *bs);
/* Deferred, once for all that start in a turn. */
void beats_started(void *arg);
