/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Decides in each attempt when the job is ready (supervisor_set_unready()): when all workers have
 * started and the condition of `ready` has come true. The job stays ready until the attempt ends.
 * Serves the worker's method Ready. Without the section it does nothing: the job is ready when it
 * runs.
 */

#include "agent/supervise/feature.h"

extern const struct feature ready_feature;
