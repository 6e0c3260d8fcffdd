/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Workers that run in a user's terminal. The caller of Attach gets the worker's environment, starts
 * the process as its own child, and reports its pid and its end. The agent signals the process like
 * any other worker's (it leads a process group of its own), watches it by a pidfd, and kills it
 * when the caller is gone: a failure by signal. A token in the environment identifies processes
 * that it leaves behind. When the agent starts such a worker again, it is an ordinary worker.
 */

#include "agent/supervise/feature.h"
#include "common/varlink/server.h"

extern const struct feature attach_feature;

/* replace.c: stops w, which runs, and calls attach_replaced() when all its processes are gone, if
 * the caller is still there. Meanwhile the group does not count w as ended. Returns as a handler.
 */
int attach_replace(
	struct supervisor *sv, struct varlink_call *call, struct worker *w, bool ignore_exit);
/* attach.c: continues a call of Attach. Checks again whether the worker can be attached, and
 * answers. May be called from anywhere: it does not call supervisor_settle(). */
int attach_replaced(struct supervisor *sv, struct varlink_call *call, const char *role, int index,
	bool ignore_exit);
