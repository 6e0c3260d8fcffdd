/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The progress of a queue in one line, for a terminal. Pure: the caller passes the time and the
 * queue's counts, and draws.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct progress {
	uint64_t last_ms;
	int64_t first; /* tasks queued or running at the beginning; -1: not known yet */
	int64_t done;  /* tasks that have ended since then, as far as known */
	double lately_done,
		lately_ms; /* of these, the latest and their time; 0 ms: nothing known yet */
};

struct progress_counts {
	int64_t accepted; /* that this program submitted */
	int64_t queued, running;
	bool all; /* the input has ended */
};

void progress_begin(struct progress *p);
/* Takes the queue's present counts. */
void progress_update(struct progress *p, const struct progress_counts *c, uint64_t now_ms);
/* The line, without a newline. Returns buf. */
const char *progress_line(
	const struct progress *p, const struct progress_counts *c, char *buf, size_t size);
