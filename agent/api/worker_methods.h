/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The calls on agent.sock about single workers: StartWorker, StopWorkers. */

#include "common/varlink/server.h"

#include <jansson.h>

struct supervisor;

/* Both answer call at once or later. Return 0, or -ENOMEM without answering the call. */
_must_check_ int single_call_start(struct supervisor *sv, struct varlink_call *call, json_t *p);
_must_check_ int single_call_stop(struct supervisor *sv, struct varlink_call *call, json_t *p);
