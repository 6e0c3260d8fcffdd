/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Hands calls on to a job's agent, each over a connection of its own, so that a slow reader or a
 * long wait delays no other call; answers come back with back-pressure. A call that can be repeated
 * survives the loss of the agent. A helper process that runs as the job's user answers a call about
 * a run that is over. Where an agent does not answer, calls that only read get what is known
 * without it, calls that end the job have it killed, and others fail.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"
#include "common/varlink/server.h"
#include "daemon/jobs/job.h"

#include <jansson.h>

struct relays;

_must_check_ int relays_new(const struct job_host *host, struct relays **ret);
/* No call may be open any more. */
struct relays *relays_free(struct relays *r);
DEFINE_CLEANUP(struct relays *, relays_free)

/* Hands the call's method on to j's agent. Returns 0 where the call is or will be answered, or a
 * negative errno. params is borrowed. */
_must_check_ int relay_begin(
	struct relays *r, struct varlink_call *call, struct job *j, const json_t *params);
