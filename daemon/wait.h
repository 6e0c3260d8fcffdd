/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Wait calls: answered from the mirror when the job gets there, or with TimedOut. */

#include "common/cleanup.h"
#include "common/varlink_server.h"
#include "daemon/job.h"

/* timeout_ms negative: none. Returns 0 where the call is or will be answered, or a negative errno.
 */
_must_check_ int wait_begin(
	struct varlink_call *call, struct job *j, bool until_running, int64_t timeout_ms);
