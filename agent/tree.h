/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The agent's descendants. The agent is a child subreaper, so that whatever a worker leaves behind
 * (double forks, own sessions) stays below it in the tree and can be found there.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Pids that are children of the agent but none of its workers' (compressors); at most a few. */
struct tree_except {
	const pid_t *pids;
	size_t n;
};

/* Sends signo to every living descendant of the caller except those listed and theirs. Returns how
 * many were signalled, or a negative errno. */
int tree_signal(const struct tree_except *except, int signo);

/* Stops every living descendant of the caller, those too that are forked meanwhile. */
void tree_stop(void);

/* How many living descendants there are; one of them in ret_pid and its name in ret_comm (17
 * bytes), preferably one in uninterruptible sleep, which is told by ret_stuck. */
int tree_count(const struct tree_except *except, pid_t *ret_pid, char *ret_comm, bool *ret_stuck);

/* True when the caller has no child at all, dead or alive: then it has no descendant either. */
bool tree_empty(void);

/*
 * True when nothing is left but the excepted: no other child, dead or alive. A child subreaper's
 * descendants that lose their parent become its children, so without children there are none.
 */
bool tree_gone(const struct tree_except *except);

/* Sends SIGKILL to all that is left but the excepted. To be called again after each reaping until
 * tree_gone(): what was forked meanwhile shows up only then. */
void tree_kill(const struct tree_except *except);
