/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Says in each attempt when the job is ready, by supervisor_set_unready(): once what `ready` names
 * has come, and all workers were started. It stays ready until the attempt ends. Serves the
 * worker's method Ready. Without the section it does nothing: the job is ready when it runs.
 */

#include "agent/supervise/feature.h"

extern const struct feature ready_feature;
