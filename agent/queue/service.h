/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The agent's side of the work queue: owns the machine (agent/queue/machine/queue.h) with its
 * timer, and serves io.elasticd.Queue from it, on worker.sock to the job's processes and on
 * agent.sock to everybody else who may ask. A worker is known to the machine by its slot, its
 * leases last as long as the connection that it got them on. What happens to tasks and the group,
 * and what the machine wants done to them, is group_hooks.h's.
 *
 * The files: see private.h.
 */

#include "agent/supervise/feature.h"
#include "common/varlink/server.h"

struct dispatch;

extern const struct feature queue_feature;
