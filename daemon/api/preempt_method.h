/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The method Preempt: gives notice to one job, or to all that the caller may control, and answers
 * when each agent has accepted it. The notice stays when the caller goes away.
 */

#include "common/varlink/server.h"
#include "daemon/api/daemon.h"

struct preempts;

_must_check_ int preempts_new(struct daemon *d, struct preempts **ret);
/* No call may be open any more. */
struct preempts *preempts_free(struct preempts *p);

/* Handles the call; params is borrowed. */
_must_check_ int preempt_begin(struct daemon *d, struct varlink_call *call, const json_t *params);
