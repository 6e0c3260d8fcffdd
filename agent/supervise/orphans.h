/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What one worker left behind when its process ended: processes that are still below the agent and
 * carry the worker's session, its process group, or its name in their environment, and what is
 * below those. Those of other workers, and the agent's own helpers, are never among them.
 */

#include "agent/supervise/supervisor.h"

/*
 * Between these the processes are listed once, at the first question: for a turn in which many
 * workers have ended. What is forked or ends meanwhile is not noticed. Without memory each question
 * has a list of its own.
 */
void orphans_begin(struct supervisor *sv);
void orphans_end(struct supervisor *sv);

/* Sends signo (0: nothing) to all of them. Returns how many there are, or a negative errno.
 * ret_unsure: some process cannot be told yet, since it is amid an execve(). t's own process must
 * have ended. */
_must_check_ int orphans_signal(
	struct supervisor *sv, const struct worker *w, int signo, bool *ret_unsure);
