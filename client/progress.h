/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One line about how a queue gets on, for the end of a terminal. Pure: the caller says what time it
 * is, what the queue has, and draws.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct progress {
	uint64_t last_ms;
	int64_t first; /* what was queued or ran at the beginning; -1: not known yet */
	int64_t done;  /* tasks that are over since then, as far as that can be told */
	double lately_done,
		lately_ms; /* of these, and the time they took; 0 ms: nothing known yet */
};

struct progress_counts {
	int64_t accepted; /* by this program */
	int64_t queued, running;
	bool all; /* there will be no more */
};

void progress_begin(struct progress *p);
/* What the queue has now. */
void progress_update(struct progress *p, const struct progress_counts *c, uint64_t now_ms);
/* The line, without an end, at most columns wide. Returns buf. */
const char *progress_line(const struct progress *p, const struct progress_counts *c, int columns,
	char *buf, size_t size);
