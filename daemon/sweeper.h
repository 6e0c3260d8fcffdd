/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sweeps (common/sweep.h) by processes of their own: how long one takes is for the machine and for
 * the users' processes to say, and elasticd waits for none of them. One at a time for each user,
 * and each has a time limit, so that a user's processes hold up that user's jobs alone. Called by
 * daemon/job.c.
 */

#include "common/cleanup.h"
#include "common/loop.h"
#include "common/sweep.h"

struct sweepers;
struct sweep_request;

/* n as of sweep_run(); -ETIMEDOUT: it did not come to an end. Once for each request, from the loop;
 * the request is gone by then. */
typedef void (*sweeper_fn)(void *arg, int n);

_must_check_ int sweepers_new(struct loop *loop, struct sweepers **ret);
/* No request may be left. */
struct sweepers *sweepers_free(struct sweepers *s);
DEFINE_CLEANUP(struct sweepers *, sweepers_free)

/* Copies target. Returns 0 with a request that is fn's or sweeper_cancel()'s to end, or a negative
 * errno. */
_must_check_ int sweeper_begin(struct sweepers *s, const struct sweep_target *target, sweeper_fn fn,
	void *arg, struct sweep_request **ret);
struct sweep_request *sweeper_cancel(struct sweep_request *r);
