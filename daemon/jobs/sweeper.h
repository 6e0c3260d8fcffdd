/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Runs sweeps (common/base/sweep.h) in processes of their own: the machine and the users' processes
 * decide how long one takes. Called by daemon/jobs/job.c.
 */

#include "common/base/cleanup.h"
#include "common/base/sweep.h"
#include "daemon/jobs/offload.h"

/* Copies target. Returns 0 with a request that lives until fn runs (with the number of sweep_run())
 * or sweeper_cancel(), or a negative errno. */
_must_check_ int sweeper_begin(struct offload *s, const struct sweep_target *target, offload_fn fn,
	void *arg, struct offload_request **ret);
struct offload_request *sweeper_cancel(struct offload_request *r);
