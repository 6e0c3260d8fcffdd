/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* io.elasticd.Manager.Logs, for running and ended jobs: answers a call with what a log reader
 * reads. */

#include "common/loop/loop.h"
#include "common/varlink/server.h"

#include <sys/queue.h>

struct log_call;
LIST_HEAD(log_calls, log_call);

/*
 * Handles a Logs call on run_dir (NULL: the job keeps no files) of a job with this many workers,
 * and adds it to calls while it is open. ended: the logs are complete, so a following reader ends
 * too. Returns what a handler returns.
 */
int log_call_start(struct log_calls *calls, struct loop *loop, struct varlink_call *call,
	json_t *parameters, const char *run_dir, int workers, bool ended);

/* The run is over: readers that follow it send the rest and end. */
void log_calls_run_ended(struct log_calls *calls);
