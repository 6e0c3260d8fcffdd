/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which of several failures came first. Pure. A worker's own timestamp counts where it is
 * plausible: between the task's start and its observed end; else the observed time does. What the
 * agent itself ended is collateral and never the cause.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rootcause {
	int64_t start_us;    /* when the task began */
	int64_t observed_us; /* when its end was seen */
	int64_t claimed_us;  /* error.json's timestamp, -1: none */
	bool claimed_whole;  /* it has no fraction of a second */
	int64_t written_us;  /* when error.json was last written, -1: none */
	int64_t stop_us;     /* when the agent began to stop this task, -1: never */
	bool by_signal;	     /* died by a signal that the agent did not send */
};

/* The moment that counts for r. ret_plausible (may be NULL): the worker's own timestamp was used.
 */
int64_t rootcause_time(const struct rootcause *r, bool *ret_plausible);

/* The agent stopped it, and nothing shows that it had failed by itself before. */
bool rootcause_is_collateral(const struct rootcause *r);

/* Index of the root cause among n failures, or -1 where all are collateral. A tie goes to a death
 * by signal, then to the lower index. */
int rootcause_pick(const struct rootcause *r, size_t n);
