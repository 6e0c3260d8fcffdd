/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Runs work that may take any time (a search of all processes, waiting for a disk) in child
 * processes, because elasticd must not wait for it. One at a time for each user, each with a time
 * limit, so that what a user has made slow delays only that user's jobs. Called by
 * daemon/jobs/sweeper.c and daemon/jobs/record_sync.c.
 */

#include "common/base/cleanup.h"
#include "common/loop/loop.h"

#include <sys/types.h>

struct offload;
struct offload_request;

struct offload_work {
	const char *name; /* of the process; static */
	uid_t uid;	  /* the user that it is for; it runs as elasticd's */
	uint64_t limit_ms;
	int (*fn)(void *arg); /* runs in the child, which has no other descriptors */
	void *arg;
	void (*drop)(void *arg); /* frees arg */
};

/* r: what the work returned; -EIO: its process died; -ETIMEDOUT: it did not end in time, and was
 * killed. Runs once for each request, from the loop; the request is freed by then. */
typedef void (*offload_fn)(void *arg, int r);

_must_check_ int offload_new(struct loop *loop, struct offload **ret);
/* Cancels what is left. */
struct offload *offload_free(struct offload *s);
DEFINE_CLEANUP(struct offload *, offload_free)

/* Copies work and takes its arg, also on failure. Returns 0 with a request that lives until fn runs
 * or offload_cancel(), or a negative errno. */
_must_check_ int offload_begin(struct offload *s, const struct offload_work *work, offload_fn fn,
	void *arg, struct offload_request **ret);
/* Kills its process. */
struct offload_request *offload_cancel(struct offload_request *r);
