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

struct asides;
struct aside;

struct aside_work {
	const char *name; /* of the process; static */
	uid_t uid;	  /* the user that it is for; it runs as elasticd's */
	uint64_t limit_ms;
	int (*fn)(void *arg); /* runs in the child, which has no other descriptors */
	void *arg;
	void (*drop)(void *arg); /* frees arg */
};

/* r: what the work returned; -EIO: its process died; -ETIMEDOUT: it did not end in time, and was
 * killed. Runs once for each request, from the loop; the request is freed by then. */
typedef void (*aside_fn)(void *arg, int r);

_must_check_ int asides_new(struct loop *loop, struct asides **ret);
/* Cancels what is left. */
struct asides *asides_free(struct asides *s);
DEFINE_CLEANUP(struct asides *, asides_free)

/* Copies work and takes its arg, also on failure. Returns 0 with a request that lives until fn runs
 * or aside_cancel(), or a negative errno. */
_must_check_ int aside_begin(struct asides *s, const struct aside_work *work, aside_fn fn,
	void *arg, struct aside **ret);
/* Kills its process. */
struct aside *aside_cancel(struct aside *r);
