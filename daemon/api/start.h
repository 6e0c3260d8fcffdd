/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Accepts a job: checks, names, limits, the record on disk, the first agent. Answers the caller
 * when the agent's process runs.
 */

#include "common/varlink/server.h"
#include "daemon/api/daemon.h"

struct starts;

_must_check_ int starts_new(struct daemon *d, struct starts **ret);
/* No call may be open any more. */
struct starts *starts_free(struct starts *s);

/* Starts spec (borrowed) for the caller, answers {job, run}. */
_must_check_ int start_begin(struct daemon *d, struct varlink_call *call, const json_t *spec);

/* As start_begin(), for elasticd itself: resumes a run that was preempted. Failures are logged. */
void start_resumed(struct daemon *d, struct job *ended);
/* Records that the run was started again; does nothing if the run does not exist. */
void start_mark_followed(struct daemon *d, const char *run);

/* Starts the specification of a run that has ended as a new run of the same user; answers {run}. */
_must_check_ int start_again(struct daemon *d, struct varlink_call *call, struct job *ended);
