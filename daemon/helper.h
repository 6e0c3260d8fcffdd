/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Processes that answer calls about runs that are over: each reads one run's files, as the job's
 * user, for one call. There may be so many in all, a share of them for each caller, and a reserve
 * for administrators. That user can stop them: so one that gets nothing done while its answer is
 * awaited is killed. Knows nothing of what is asked and answered: that is relay.c's.
 */

#include "common/cleanup.h"
#include "common/error.h"
#include "common/varlink_server.h"
#include "daemon/job.h"

#include <stdbool.h>

struct helpers;
struct helper;

/* idle_ms: how long a helper may get nothing done. host is borrowed. */
_must_check_ int helpers_new(const struct job_host *host, uint64_t idle_ms, struct helpers **ret);
/* Kills those that are left; no call has one any more. */
struct helpers *helpers_free(struct helpers *all);
DEFINE_CLEANUP(struct helpers *, helpers_free)

/*
 * Starts one for j, which counts for caller; its answer is awaited. ret_socket: the connection to
 * it, the caller's own. Returns 0, -EDQUOT or -ENOBUFS where caller, or all, have as many as
 * *ret_limit, or another negative errno with err.
 */
_must_check_ int helper_new(struct helpers *all, const struct job *j,
	const struct varlink_account *caller, struct helper **ret, int *ret_socket,
	size_t *ret_limit, struct error *err);
/* Kills it. It counts until its process is gone. */
struct helper *helper_free(struct helper *h);

/* Whether an answer of it is awaited, from now on; also said where one has come and another one is.
 * One that is held up by its reader may take any time. */
void helper_await(struct helper *h, bool awaited);

/* Why its connection has ended. */
const char *helper_why(const struct helper *h);
