/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Wait calls: answered from the mirror when the job reaches the state, or with DeadlineExceeded
 * when the time is over; if the caller wants that, the run is ended first. */

#include "common/base/cleanup.h"
#include "common/varlink/server.h"
#include "daemon/jobs/job.h"

enum wait_until { WAIT_ENDED, WAIT_RUNNING, WAIT_READY };

struct wait_options {
	enum wait_until until; /* or ended */
	bool kill;	       /* at the limit the agent ends the run */
	int64_t timeout_ms;    /* negative: none; not with kill */
};

/* Returns 0 where the call is or will be answered, or a negative errno. */
_must_check_ int wait_begin(
	struct varlink_call *call, struct job *j, const struct wait_options *options);
