/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Workers that run in a user's terminal. The process is a child of the program that called Attach:
 * the caller gets the worker's environment, starts the process, and reports its pid and its end.
 * The agent signals the process like any other worker's (it leads a process group of its own),
 * watches it by a pidfd, and kills it when the caller is gone, which counts as a failure by signal.
 * Processes that it leaves behind are found by the token in their environment. When the agent
 * starts such a worker again, it is an ordinary worker.
 */

#include "agent/supervise/feature.h"
#include "common/varlink/server.h"

extern const struct feature attach_feature;

/* replace.c: stops w, which runs, and calls attach_replaced() when all its processes are gone,
 * unless the caller is gone by then. Meanwhile the group does not count w as ended. */
int attach_replace(
	struct supervisor *sv, struct varlink_call *call, struct worker *w, bool ignore_exit);
/* Continues a call of Attach: checks again whether the worker can be attached, and answers. May be
 * called from anywhere: it settles nothing. */
int attach_replaced(struct supervisor *sv, struct varlink_call *call, const char *role, int index,
	bool ignore_exit);
