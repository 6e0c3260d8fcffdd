/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Goodput: where the time of a run has gone, from its events. Pure, and the same for the events of
 * a running job as for those of its earlier agents. elasticd-job(5) defines the parts.
 *
 * The group is always in one part; its time counts there. While the group works, single workers
 * may lose time (they start later, or again, or make steps again). When the attempt is over this
 * time, divided by the number of workers that make steps, moves from WORKING to another part.
 *
 * All times are those of the clock. Where it was set, which an event says, later ones are shifted.
 */

#include "common/base/cleanup.h"

#include <jansson.h>
#include <stdint.h>

/* One process of a worker, from its start to its end, or to now. Times in microseconds. */
struct goodput_life {
	int worker; /* which one: the same in all attempts */
	int64_t started_us, ended_us;
	uint64_t steps;	     /* how many it has begun */
	int64_t first, last; /* numbers of these; -1: not known */
	int64_t first_us;    /* when the first began */
};

struct goodput;

struct goodput *goodput_new(void); /* NULL without memory */
struct goodput *goodput_free(struct goodput *g);
DEFINE_CLEANUP(struct goodput *, goodput_free)

/* Adds an Event (borrowed), in the order of their numbers. */
void goodput_event(struct goodput *g, const json_t *event);

/* The time in each part, as a Goodput object: from the first event to now_us, or to the end of the
 * run. lives: of the n workers that run. Owned; NULL before the first event and without memory. */
json_t *goodput_json(
	const struct goodput *g, const struct goodput_life *lives, size_t n, int64_t now_us);
