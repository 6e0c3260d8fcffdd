/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How many steps one process has made over the last while, from looks at its count at any times.
 * Pure. Looks that come faster than the window's share for one replace the newest, so that the
 * window is always covered.
 */

#include <stdint.h>

enum { STEP_WINDOW_LOOKS = 64, STEP_WINDOW_SHARE = 60 };

struct step_window {
	struct step_look {
		uint64_t at_ms, steps;
		double lag; /* in steps, behind the middle worker; see straggler.h */
	} looks[STEP_WINDOW_LOOKS];
	unsigned n, newest;
};

/* The looks of the last while: steps made in took_ms, and the mean lag. took_ms 0: one look, or
 * none. */
struct step_span {
	uint64_t made, took_ms;
	double lag;
};

void step_window_add(
	struct step_window *w, uint64_t window_ms, uint64_t at_ms, uint64_t steps, double lag);
struct step_span step_window_span(const struct step_window *w, uint64_t window_ms);
