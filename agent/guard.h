/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The guard: the outer of an agent's two processes. It does nothing but wait, so nothing can make
 * it fail, and it is a child subreaper: when the agent proper dies, all that it left behind becomes
 * the guard's and is killed. It hands signals on. If the guard itself is killed, the agent gets
 * GUARD_DIED_SIGNAL and ends everything. Neither makes a system call while idle.
 */

#include "agent/cgroup.h"

#include <signal.h>
#include <stdbool.h>

#define GUARD_DIED_SIGNAL SIGRTMAX

/*
 * Forks. In the agent proper it returns 0, with all signals blocked still and old in ret_mask. The
 * guard keeps no descriptor above 2 but keep_fd (the lock, or -1), and never returns: it exits with
 * the agent's exit status, or 125 when the agent was killed, after having removed dir (NULL: none).
 * Returns a negative errno when fork fails.
 */
int guard_fork(struct cgroup *cgroup, int keep_fd, const char *dir, sigset_t *ret_mask)
	__attribute__((warn_unused_result));

/* In the agent proper: whether its guard has died. */
bool guard_gone(void);
