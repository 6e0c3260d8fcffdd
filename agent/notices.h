/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Notices that the agent looks for itself: the job's own command, and in the foreground, where no
 * elasticd watches for the host, what the cloud says. Each becomes preempting_notice().
 */

#include "agent/agent.h"

/* Begins to look for what the specification names; nothing where it names nothing. */
_must_check_ int notices_new(struct agent *a, struct error *err);
void notices_free(struct agent *a);
/* The job is at its end: nothing is looked for any more, and nothing is left running. */
void notices_end(struct agent *a);
/* Whether the child was one of these; code and status are waitid()'s. */
bool notices_child_exited(struct agent *a, pid_t pid, int code, int status);
/* As hang_helpers(). */
size_t notices_helpers(struct agent *a, pid_t *pids, size_t max);
