/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Removes runs that have ended. A process of the job's user removes the logs, since that user chose
 * where they are; elasticd removes the record.
 */

#include "common/varlink/server.h"
#include "daemon/api/daemon.h"

struct removals;

_must_check_ int removals_new(struct daemon *d, struct removals **ret);
/* No call may be open any more. */
struct removals *removals_free(struct removals *r);

/* Removes the n runs of jobs (borrowed during the call), with their logs if asked, and answers the
 * call with how many.
 */
_must_check_ int remove_begin(
	struct daemon *d, struct varlink_call *call, struct job **jobs, size_t n, bool logs);

/* failed: how many runs could not be removed. Runs once, never inside remove_prune(). */
typedef void (*remove_fn)(void *arg, int failed);

/* Removes the n runs of jobs (borrowed during the call), for prune.c and without a caller. */
_must_check_ int remove_prune(
	struct daemon *d, struct job **jobs, size_t n, remove_fn fn, void *arg);

/* Whether removing the run also removes its logs: not if the job named their directory itself. */
bool remove_takes_logs(const struct daemon *d, const struct job_record *rec);
