/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* io.elasticd.Manager.Logs: joins a call and a log reader, for a job that runs and for one that is
 * over. */

#include "common/loop.h"
#include "common/varlink_server.h"

#include <sys/queue.h>

struct log_call;
LIST_HEAD(log_calls, log_call);

/*
 * Handles a Logs call on run_dir (NULL: the job keeps no files), where the job has so many workers,
 * and enters it in calls while it is open. ended: no more will be written, so a following reader
 * ends too. Returns what a handler returns.
 */
int log_call_start(struct log_calls *calls, struct loop *loop, struct varlink_call *call,
	json_t *parameters, const char *run_dir, int workers, bool ended);

/* The run is over: readers that follow send the rest and end. */
void log_calls_run_ended(struct log_calls *calls);
