/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The agent's descendants. The agent is a child subreaper, so whatever workers leave behind (double
 * forks, own sessions) stays below it in the process tree.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Children of the agent that are not workers (compressors); at most a few. */
struct tree_except {
	const pid_t *pids;
	size_t n;
};

/* Sends signo to every living descendant of the caller except the given processes and their
 * descendants. Returns how many got it, or a negative errno. */
int tree_signal(const struct tree_except *except, int signo);

/* Stops (SIGSTOP) every living descendant of the caller, including those forked meanwhile. */
void tree_stop(void);

/* Returns the number of living descendants, with one of them in ret_pid and its name in ret_comm
 * (17 bytes): preferably one in uninterruptible sleep, and then ret_stuck is true. */
int tree_count(const struct tree_except *except, pid_t *ret_pid, char *ret_comm, bool *ret_stuck);

/* True when the caller has no child at all, dead or alive: then it has no descendant either. */
bool tree_empty(void);

/*
 * True when no child, dead or alive, is left except the given ones. Descendants that lose their
 * parent become children of a child subreaper, so without children there are no descendants.
 */
bool tree_gone(const struct tree_except *except);

/* Sends SIGKILL to everything left except the given processes. Call it again after each reaping
 * until tree_gone(): processes forked meanwhile show up only then. */
void tree_kill(const struct tree_except *except);
