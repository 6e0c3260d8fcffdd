/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Processes that one worker left behind when its own process ended: those below the agent that have
 * the worker's session, its process group, or its name in their environment, and all below them.
 * Processes of other workers, and the agent's own helpers, are never among them.
 */

#include "agent/supervise/supervisor.h"

/*
 * Between these two calls orphans_signal() lists the processes once, for a turn in which many
 * workers have ended; it does not notice processes that are forked or end meanwhile. Without memory
 * each call makes a list of its own.
 */
void orphans_begin(struct supervisor *sv);
void orphans_end(struct supervisor *sv);

/* Sends signo (0: nothing) to all processes that w left behind. Returns how many there are, or a
 * negative errno. ret_unsure: the owner of some process is not known yet, since it is in an
 * execve(). The process of w must have ended. */
_must_check_ int orphans_signal(
	struct supervisor *sv, const struct worker *w, int signo, bool *ret_unsure);
