/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The guard: the parent process of the agent proper. It only waits, so that nothing can make it
 * fail, and it is a child subreaper: when the agent dies, all its descendants become the guard's,
 * which kills them. In a group of several hosts it also kills workers that outlive their host's
 * lease because the agent is stopped or hangs, and it has the last word to the group's head
 * (fence.h). It passes signals on to the agent. If the guard itself is killed, the agent
 * gets GUARD_DIED_SIGNAL and ends everything. Neither makes a system call while idle.
 *
 * A shell knows only the guard. At SIGTSTP (Ctrl-Z) the guard has the agent stop the workers,
 * stops itself, and lets the agent go on when the shell continues it.
 */

#include "agent/process/cgroup.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#define GUARD_DIED_SIGNAL SIGRTMAX
#define GUARD_SUSPENDED_SIGNAL (SIGRTMAX - 1)
#define GUARD_LEFT_SIGNAL (SIGRTMAX - 2)
#define GUARD_FENCE_SIGNAL (SIGRTMAX - 3)

struct guard_job {
	int keep_fd;	 /* the only descriptor above 2 that the guard keeps (the lock), or -1 */
	const char *dir; /* removed at the end; NULL: none */
	const char *state_dir; /* where the guard notes how the agent was killed; NULL: nowhere */
	bool foreground;       /* pass SIGTSTP on */
	bool fence;	       /* workers live until a deadline (guard_fence()) */
};

/*
 * Forks. In the agent proper it returns 0, with all signals still blocked and the old mask in
 * ret_mask. In the guard it never returns: the guard exits with the agent's exit status, or with
 * 125 when the agent was killed, after removing the job's dir. Returns a negative errno when fork
 * fails.
 */
int guard_fork(struct cgroup *cgroup, const struct guard_job *job, sigset_t *ret_mask)
	__attribute__((warn_unused_result));

/* In the agent proper: true when its guard has died. */
bool guard_gone(void);

/* The last call of an agent proper that cannot end, because a file system holds one of its threads.
 * Tells the guard the exit status; the guard then kills the agent without waiting for its end.
 * Closes lock_fd, which that thread would keep locked. */
void guard_leave(int status, int lock_fd);

/* In the agent proper, with guard_job.fence: its workers may live until then, in milliseconds of
 * CLOCK_BOOTTIME; 0: without a limit. The guard kills them where the agent does not. */
void guard_fence(uint64_t deadline_ms);

/* In the agent proper, after SIGTSTP: the workers have stopped, so the guard stops itself. When the
 * guard is continued it sends SIGCONT to the agent. */
void guard_suspended(void);
