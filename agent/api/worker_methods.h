/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The methods of io.elasticd.Manager about single workers. */

#include "common/varlink/server.h"

#include <jansson.h>

/* StartWorker and StopWorkers; handlers as of struct varlink_method. arg is the supervisor. */
int worker_method_start(struct varlink_call *call, json_t *p, void *arg);
int worker_method_stop(struct varlink_call *call, json_t *p, void *arg);
