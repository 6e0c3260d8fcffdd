/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Wait calls: answered from the mirror when the job gets there, or with TimedOut, or, where the
 * caller wants that, after the job was made to get there. */

#include "common/cleanup.h"
#include "common/varlink_server.h"
#include "daemon/job.h"

struct wait_options {
	bool until_running;
	bool kill;	    /* the agent ends a run that has not got there in time */
	int64_t timeout_ms; /* negative: none; not with kill */
};

/* Returns 0 where the call is or will be answered, or a negative errno. */
_must_check_ int wait_begin(
	struct varlink_call *call, struct job *j, const struct wait_options *options);
