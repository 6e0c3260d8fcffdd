/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Checks heartbeats and progress of all workers, and dumps workers that hang. */

#include "agent/supervise/feature.h"
#include "agent/watchdog/dump.h"

extern const struct feature watchdog_feature;

/* NULL at the agent's end, and before it is initialised. */
struct watchdog *watchdog_of(const struct supervisor *sv);

/* Dumps n workers, given by their places, with dumps_begin(). */
_must_check_ int watchdog_dump(struct supervisor *sv, const int *places, size_t n, const char *why,
	uint64_t timeout_ms, dump_done_fn fn, void *arg, struct error *err);
