/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Tasks that run in somebody's terminal. Their process is the child of whoever called Attach, which
 * gets the worker's environment, makes the process, and tells its pid and its end. The agent
 * signals it as any other worker's (it leads a process group of its own), watches it by a pidfd,
 * and kills it when its caller is gone: such a task has failed by a signal. What it leaves behind
 * is known by the token in its environment. Started by the agent again, the task is one as any
 * other.
 */

#include "agent/agent.h"
#include "common/varlink_server.h"

/* The three methods. They answer, now or later. */
int attach_begin(struct agent *a, struct varlink_call *call, const json_t *p);
int attach_started(struct agent *a, struct varlink_call *call, const json_t *p);
int attach_ended(struct agent *a, struct varlink_call *call, const json_t *p);

/* attach_replace.c: stops t, which runs, and goes on with attach_replaced() when nothing is left of
 * it, unless the caller is gone by then. Until then the group is not judged as if t had ended. */
int attach_replace(struct agent *a, struct varlink_call *call, struct task *t, bool ignore_exit);
/* Goes on with a call of Attach: looks anew whether the task can be attached. Answers. Settles
 * nothing: it may be called from anywhere. */
int attach_replaced(
	struct agent *a, struct varlink_call *call, const char *role, int index, bool ignore_exit);

/* Attached tasks are being stopped (t NULL: all): tells whoever sits there why. One whose process
 * was not made yet is over. */
void attach_stopping(struct agent *a, const struct task *t, const char *why);

/* Hands a signal on where the agent itself may not send it: a program that has changed its user. */
void attach_hand_on(struct agent *a, const struct task *t, int signo);

/* SIGKILL to the attached tasks' processes and what is below them. */
void attach_kill(struct agent *a);

/* Ends the calls that are open; with the agent. */
void attach_free(struct agent *a);
