/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The calls on agent.sock that are about single tasks: StartTask, StopTask. */

#include "common/varlink_server.h"

#include <jansson.h>

struct agent;

/* Both answer call at once or later. Return 0 or -ENOMEM: the call is not answered then. */
_must_check_ int single_call_start(struct agent *a, struct varlink_call *call, json_t *p);
_must_check_ int single_call_stop(struct agent *a, struct varlink_call *call, json_t *p);
