/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Processes that answer calls about runs that are over: each reads the files of one run, as the
 * job's user, for one call. Their number is limited in all and for each caller, with a reserve for
 * administrators. The job's user can stop such a process, so one that makes no progress while
 * elasticd awaits its answer is killed. Does not know what is asked and answered: relay.c does.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"
#include "common/varlink/server.h"
#include "daemon/jobs/job.h"

#include <stdbool.h>

struct helpers;
struct helper;

/* idle_ms: how long a helper may get nothing done. host is borrowed. */
_must_check_ int helpers_new(const struct job_host *host, uint64_t idle_ms, struct helpers **ret);
/* Kills the processes that are left; no call may use one any more. */
struct helpers *helpers_free(struct helpers *all);
DEFINE_CLEANUP(struct helpers *, helpers_free)

/*
 * Starts one for j, which counts for caller; its answer is awaited. ret_socket is the connection to
 * it and belongs to the caller. Returns 0, -EDQUOT if caller has *ret_limit of them, -ENOBUFS if
 * all have, or another negative errno with err.
 */
_must_check_ int helper_new(struct helpers *all, const struct job *j,
	const struct varlink_account *caller, struct helper **ret, int *ret_socket,
	size_t *ret_limit, struct error *err);
/* Kills it. It counts until its process is gone. */
struct helper *helper_free(struct helper *h);

/* Says whether an answer is awaited from now on; call it again after each answer if another one
 * follows. While its reader holds it up (not awaited), the process may take any time. */
void helper_await(struct helper *h, bool awaited);

/* Why the connection to it has ended. */
const char *helper_why(const struct helper *h);
