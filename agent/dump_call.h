/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The Dump call of io.elasticd.Manager: saves what was asked for and answers with the directories.
 */

#include "agent/agent.h"
#include "common/varlink_server.h"

/* p: the call's parameters, borrowed. Returns 0 or a negative errno: not answered then. */
_must_check_ int dump_call_start(struct agent *a, struct varlink_call *call, json_t *p);
