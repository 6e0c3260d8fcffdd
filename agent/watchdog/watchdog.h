/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Heartbeats and progress of all workers, and dumps of those that hang.
 */

#include "agent/supervise/feature.h"
#include "agent/watchdog/dump.h"

extern const struct feature watchdog_feature;

/* Saves n workers, given by rank, with hang_dump(). */
_must_check_ int beats_dump(struct agent *a, const int *ranks, size_t n, const char *why,
	uint64_t timeout_ms, hang_done_fn fn, void *arg, struct error *err);
