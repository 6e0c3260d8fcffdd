/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Runs the programs of `hooks`. Each gets a JSON object on its standard input: {"hook", "time_us",
 * "host", "job": Job} and, after a failure, "failures", an array of Failure. Hooks run one after
 * the other; at the end of the job the agent waits for them for a limited time.
 */

#include "agent/supervise/feature.h"

extern const struct feature hooks_feature;
