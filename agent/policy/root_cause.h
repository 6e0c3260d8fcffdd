/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which of several failures came first. Pure; called for failures of workers (failure.c) and for
 * those that were told (failure_list.c). A worker's own timestamp counts where it is
 * plausible: between the worker's start and its observed end; else the observed time does. What the
 * agent itself ended is collateral and never the cause.
 */

#include <stdbool.h>
#include <stdint.h>

struct rootcause {
	int64_t start_us;    /* when the worker began */
	int64_t observed_us; /* when its end was seen */
	int64_t claimed_us;  /* error.json's timestamp, -1: none */
	bool claimed_whole;  /* it has no fraction of a second */
	int64_t written_us;  /* when error.json was last written, -1: none */
	int64_t stop_us;     /* when the agent began to stop this worker, -1: never */
	bool by_signal;	     /* died by a signal that the agent did not send */
};

/* The moment that counts for r. ret_plausible (may be NULL): the worker's own timestamp was used.
 */
int64_t rootcause_time(const struct rootcause *r, bool *ret_plausible);

/* The agent stopped it, and nothing shows that it had failed by itself before. */
bool rootcause_is_collateral(const struct rootcause *r);

/* What decides where a failure stands among others. */
struct rootcause_place {
	enum {
		ROOTCAUSE_ENDED_IT, /* the attempt, or would have */
		ROOTCAUSE_COLLATERAL,
		ROOTCAUSE_MADE_GOOD, /* by a restart of the worker alone */
	} group;
	int64_t time_us;
	bool by_signal;
};

struct rootcause_place rootcause_place(const struct rootcause *r);

/* Less than 0: a stands before b, as the root cause does before all; 0: nothing decides. Within a
 * group the earlier one is first, and of two at the same moment a death by signal. */
int rootcause_compare(const struct rootcause_place *a, const struct rootcause_place *b);
