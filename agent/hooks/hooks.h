/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Runs the programs of `hooks`: each gets a JSON object on its standard input, {"hook", "time_us",
 * "host", "job": Job} and, of a failure, "failures", an array of Failure. Hooks that come while one
 * runs wait for their turn; at the end of the job the agent waits for them for a limited time.
 */

#include "agent/supervise/feature.h"

extern const struct feature hooks_feature;
