/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * When a host whose health program failed runs it again: soon, or after a cool-down where it fails
 * too often. Pure: times are arguments, of a clock that never goes back.
 */

#include "common/spec/spec.h"

struct cooldown {
	uint64_t failed_ms[SPEC_HEALTH_FAILURES_MAX]; /* within the window, the oldest first */
	int n;
};

/* The program failed. Returns how many milliseconds to wait; ret_over: the host cools down, and all
 * failures so far are forgotten. */
uint64_t cooldown_failed(
	struct cooldown *c, const struct spec_health *h, uint64_t now_ms, bool *ret_over);
