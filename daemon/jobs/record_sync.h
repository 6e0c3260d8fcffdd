/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Has the disk take what was written of a run's record, in a process of its own: how long that
 * takes is decided by whatever else is written to that disk, and by whom. Called by
 * daemon/api/start.c before it answers, and by daemon/jobs/job.c.
 */

#include "daemon/jobs/offload.h"
#include "daemon/jobs/record.h"

/* Returns 0 with a request that lives until fn runs or offload_cancel(), or a negative errno. */
_must_check_ int record_sync_begin(struct offload *s, const struct record_store *store,
	const struct job_record *r, offload_fn fn, void *arg, struct offload_request **ret);

/* The same where no caller waits. A failure is logged. */
void record_sync_later(
	struct offload *s, const struct record_store *store, const struct job_record *r);
