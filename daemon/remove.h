/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Forgetting runs that have ended. Logs are removed by a process of the job's user, since they lie
 * where that user said; the record is removed by elasticd.
 */

#include "common/varlink_server.h"
#include "daemon/daemon.h"

struct removals;

_must_check_ int removals_new(struct daemon *d, struct removals **ret);
/* No call may be open any more. */
struct removals *removals_free(struct removals *r);

/* Removes the n runs of jobs (taken), with their logs if asked, and answers the call with how many.
 */
_must_check_ int remove_begin(
	struct daemon *d, struct varlink_call *call, struct job **jobs, size_t n, bool logs);

/* failed: how many of them are still there. Called once, never inside remove_prune(). */
typedef void (*remove_fn)(void *arg, int failed);

/* Removes the n runs of jobs (borrowed during the call) that nobody asked to remove. */
_must_check_ int remove_prune(
	struct daemon *d, struct job **jobs, size_t n, remove_fn fn, void *arg);

/* Whether a run that is pruned loses its logs: not where its job named their directory. */
bool remove_takes_logs(const struct daemon *d, const struct job_record *rec);
