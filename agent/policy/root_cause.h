/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which of several failures came first. Pure; called for failures of workers (failure.c) and for
 * Failure objects (failure_list.c). A worker's own timestamp counts if it is plausible, which means
 * between the worker's start and its observed end; else the observed end counts. A failure of a
 * worker that the agent ended is collateral and never the root cause.
 */

#include <stdbool.h>
#include <stdint.h>

struct root_cause {
	int64_t start_us;    /* when the worker began */
	int64_t observed_us; /* when its end was seen */
	int64_t claimed_us;  /* error.json's timestamp, -1: none */
	bool claimed_whole;  /* it has no fraction of a second */
	int64_t written_us;  /* when error.json was last written, -1: none */
	int64_t stop_us;     /* when the agent began to stop this worker, -1: never */
	bool by_signal;	     /* died by a signal that the agent did not send */
	bool out_of_memory;  /* that was the kernel's, which needed memory */
};

/* The time of the failure. ret_plausible (may be NULL): it is the worker's own timestamp. */
int64_t root_cause_time(const struct root_cause *r, bool *ret_plausible);

enum { ROOT_CAUSE_OOM_US = 5000000 };

/* The keys by which failures are ordered. */
struct root_cause_place {
	enum {
		ROOT_CAUSE_ENDED_IT, /* it ended the attempt, or would have */
		ROOT_CAUSE_COLLATERAL,
		ROOT_CAUSE_MADE_GOOD, /* the worker was started again alone */
	} group;
	int64_t time_us;
	bool by_signal, out_of_memory;
};

struct root_cause_place root_cause_place(const struct root_cause *r);

/* Less than 0: a comes before b (the root cause comes first); 0: nothing decides. Within a group
 * the earlier failure comes first; at the same time a death by signal does. The kernel's kill for
 * want of memory follows from no other worker's failure, but is seen late where the host gasps for
 * memory: it comes before failures up to ROOT_CAUSE_OOM_US earlier. */
int root_cause_compare(const struct root_cause_place *a, const struct root_cause_place *b);
