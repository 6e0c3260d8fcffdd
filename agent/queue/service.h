/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The agent's side of the work queue: owns the machine (agent/queue/machine/queue.h) with its
 * timer, and serves io.elasticd.Queue from it, on worker.sock to the job's workers and on
 * agent.sock to other callers. The machine knows a worker by its slot; a lease lasts as long as the
 * connection on which the worker got it. group_hooks.h connects the machine with the group.
 *
 * The files: see private.h.
 */

#include "agent/supervise/feature.h"
#include "common/varlink/server.h"

extern const struct feature queue_feature;
