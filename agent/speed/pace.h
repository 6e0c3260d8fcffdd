/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How fast the workers of one role are, and which of them are stragglers, from looks at all of them
 * at moments that all hosts of a group have in common. Pure.
 */

#include "agent/speed/step_window.h"
#include "agent/speed/straggler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The speed of one process. */
struct pace {
	struct step_window window;
	struct straggler straggler;
	bool together; /* at the last comparison: its role's workers wait for each other */
};

/* One worker at one look. */
struct pace_worker {
	struct pace *pace;
	const void *of;	 /* the caller's */
	uint64_t count;	 /* steps that it has begun */
	int64_t last;	 /* the number of the last of them; -1: not known */
	bool slow, over; /* pace_compare(): it is slow from now on; it is not any more */
};

/* When look number is due, and the number of the first look after now_us; in a group by the head's
 * clock. io.elasticd.Peer.Look defines them. */
uint64_t pace_moment_us(uint64_t number, uint64_t window_ms);
uint64_t pace_next(uint64_t now_us, uint64_t window_ms);

/* Notes where each of n workers is, and how far it is behind the middle one. */
void pace_add_looks(struct pace_worker *all, size_t n, uint64_t at_ms);
/* By how many steps the last worker is behind the middle one; -1: some steps have no number. */
int64_t pace_behind(const struct pace_worker *all, size_t n);
/* Moves the workers with looks of a whole window to the front. Returns how many these are. */
size_t pace_known(struct pace_worker *all, size_t n, uint64_t window_ms);
/* Sets slow and over of each, as struct straggler says. limit: percent. */
void pace_compare(
	struct pace_worker *all, size_t n, bool together, double limit, uint64_t window_ms);

/* "makes 2.1 steps/s, and needs 40% more time than the others"; "" for one that is not slow. */
void pace_text(const struct pace *p, uint64_t window_ms, char *text, size_t size);
