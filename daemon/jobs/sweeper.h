/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Runs sweeps (common/base/sweep.h) in processes of their own: the machine and the users' processes
 * decide how long one takes, and elasticd must not wait for it. One at a time for each user, each
 * with a time limit, so that a user's processes delay only that user's jobs. Called by
 * daemon/jobs/job.c.
 */

#include "common/base/cleanup.h"
#include "common/base/sweep.h"
#include "common/loop/loop.h"

struct sweepers;
struct sweep_request;

/* n as of sweep_run(); -ETIMEDOUT: the sweep did not end in time. Runs once for each request, from
 * the loop; the request is freed by then. */
typedef void (*sweeper_fn)(void *arg, int n);

_must_check_ int sweepers_new(struct loop *loop, struct sweepers **ret);
/* No request may be left. */
struct sweepers *sweepers_free(struct sweepers *s);
DEFINE_CLEANUP(struct sweepers *, sweepers_free)

/* Copies target. Returns 0 with a request that lives until fn runs or sweeper_cancel(), or a
 * negative errno. */
_must_check_ int sweeper_begin(struct sweepers *s, const struct sweep_target *target, sweeper_fn fn,
	void *arg, struct sweep_request **ret);
struct sweep_request *sweeper_cancel(struct sweep_request *r);
