/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The guard: the outer of an agent's two processes. It does nothing but wait, so nothing can make
 * it fail, and it is a child subreaper: when the agent proper dies, all that it left behind becomes
 * the guard's and is killed. It hands signals on. If the guard itself is killed, the agent gets
 * GUARD_DIED_SIGNAL and ends everything. Neither makes a system call while idle.
 *
 * Of a shell's job it is the part that the shell knows: at SIGTSTP (Ctrl-Z) it has the agent stand
 * still, stops itself, and lets the agent go on when the shell continues it.
 */

#include "agent/cgroup.h"

#include <signal.h>
#include <stdbool.h>

#define GUARD_DIED_SIGNAL SIGRTMAX
#define GUARD_STILL_SIGNAL (SIGRTMAX - 1)

struct guard_job {
	int keep_fd;	 /* the only descriptor above 2 that the guard keeps (the lock), or -1 */
	const char *dir; /* removed at the end; NULL: none */
	const char *state_dir; /* where it is left how the agent was killed; NULL: nowhere */
	bool foreground;       /* SIGTSTP is handed on */
};

/*
 * Forks. In the agent proper it returns 0, with all signals blocked still and old in ret_mask. The
 * guard never returns: it exits with the agent's exit status, or 125 when the agent was killed,
 * after having removed job's dir. Returns a negative errno when fork fails.
 */
int guard_fork(struct cgroup *cgroup, const struct guard_job *job, sigset_t *ret_mask)
	__attribute__((warn_unused_result));

/* In the agent proper: whether its guard has died. */
bool guard_gone(void);

/* In the agent proper, after SIGTSTP: the job stands still, so the guard stops itself. When that is
 * continued it sends SIGCONT. */
void guard_stands_still(void);
