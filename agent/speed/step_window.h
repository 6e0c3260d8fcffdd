/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Counts the steps that one process made in the last window, from looks at any times. Pure. A look
 * that comes within a share of the window after the one before replaces the newest, so that the
 * looks always cover the window.
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

/* The looks of the last window: steps made in took_ms, and the mean lag. took_ms 0: one look, or
 * none. */
struct step_span {
	uint64_t made, took_ms;
	double lag;
};

void step_window_add(
	struct step_window *w, uint64_t window_ms, uint64_t at_ms, uint64_t steps, double lag);
struct step_span step_window_span(const struct step_window *w, uint64_t window_ms);
