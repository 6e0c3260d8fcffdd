/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The kernel's kills for want of memory. A process that is killed so gets a plain SIGKILL; only the
 * counters of its control group (version 2, else 1; else of the host) tell it from any other one.
 * The kernel counts before it sends the signal. So the counters are read when an attempt begins and
 * after such an end, never in between.
 */

#include "common/base/cleanup.h"

#include <stdbool.h>
#include <stdint.h>

struct oom;

/* The counters at this moment. */
struct oom_reading {
	int64_t kills;	 /* since oom_begin(), less those explained; 0: nothing below is set */
	bool sure;	 /* they hit the job's control group; else any process of the host */
	int64_t limit;	 /* bytes: the limit that was reached; -1: the host had no memory left */
	char group[128]; /* the control group that has this limit; "" without limit */
};

/* dir: the job's control group; NULL: the agent's own. Returns owned, NULL without memory. */
struct oom *oom_new(const char *dir);
struct oom *oom_free(struct oom *o);
DEFINE_CLEANUP(struct oom *, oom_free)

/* Forgets all kills so far. */
void oom_begin(struct oom *o);

/* Reads the counters. Before the first oom_begin() there are no kills. */
void oom_read(const struct oom *o, struct oom_reading *ret);

/* n kills are explained: oom_read() counts them no more. */
void oom_explained(struct oom *o, int64_t n);
