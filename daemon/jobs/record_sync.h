/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Syncs a run's record to disk in a process of its own, because other writers to that disk can make
 * it slow. Called by daemon/api/start.c before it answers, and by daemon/jobs/job.c.
 */

#include "daemon/jobs/offload.h"
#include "daemon/jobs/record.h"

/* Returns 0 with a request that lives until fn runs or offload_cancel(), or a negative errno. */
_must_check_ int record_sync_begin(struct offload *s, const struct record_store *store,
	const struct job_record *r, offload_fn fn, void *arg, struct offload_request **ret);

/* The same where no caller waits for it. A failure is logged. */
void record_sync_later(
	struct offload *s, const struct record_store *store, const struct job_record *r);
