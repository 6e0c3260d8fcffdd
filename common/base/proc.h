/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reads processes from /proc. Every answer may be out of date when it arrives. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct proc_stat {
	pid_t pid, ppid, pgrp, session;
	char state;	 /* 'R', 'S', 'D', 'Z', ... */
	uint64_t cpu_ms; /* user and system time of the process itself */
	uint64_t rss_bytes;
	uint64_t start_ticks; /* since boot; with the pid it names one process for ever */
	char comm[17];
};

/* Whether the process has ended; its parent may not have reaped it yet. */
static inline bool proc_stat_dead(const struct proc_stat *p)
{
	return p->state == 'Z' || p->state == 'X';
}

/* Returns 0, -ESRCH when there is no such process, or another negative errno. */
int proc_stat_read(pid_t pid, struct proc_stat *ret) __attribute__((warn_unused_result));

/* All processes; ret is an owned array of n. Returns 0 or a negative errno. */
int proc_stat_all(struct proc_stat **ret, size_t *ret_n) __attribute__((warn_unused_result));

/* Reduces an array from proc_stat_all() to the descendants of root (without root), in place, and
 * returns how many are left. */
size_t proc_keep_descendants(struct proc_stat *procs, size_t n, pid_t root);

/* The descendants of root (without root), parents before their children; ret is an owned array of
 * n. Looks at these processes alone if the kernel lists children (CONFIG_PROC_CHILDREN), else at
 * all of the host. Returns 0 or a negative errno. */
int proc_stat_below(pid_t root, struct proc_stat **ret, size_t *ret_n)
	__attribute__((warn_unused_result));

/* Whether the initial environment of pid has exactly this "NAME=value" entry: 1 or 0; -EAGAIN if
 * the process is in the middle of execve(), when /proc shows only a part of it or nothing; -ESRCH
 * if it is gone or dead; or another negative errno. */
int proc_environ_has(pid_t pid, const char *entry) __attribute__((warn_unused_result));
/* The same for any value of a name: prefix is "NAME=". ret is the value, cut to size. */
int proc_environ_get(pid_t pid, const char *prefix, char *ret, size_t size)
	__attribute__((warn_unused_result));

/* The real uid of a process, which any user may read. Returns 0, -ESRCH or another negative errno.
 */
int proc_uid(pid_t pid, uid_t *ret) __attribute__((warn_unused_result));

/* Whether it is in a cgroup (version 2) of that name or below one, at any depth. */
bool proc_in_cgroup(pid_t pid, const char *name);

/* A descriptor of the process for pidfd_send_signal() and for waiting; close-on-exec. */
int proc_pidfd(pid_t pid);
int proc_pidfd_kill(int pidfd, int signo);

/* Sends signo to the process that p was read from, never to another one that got its pid. Returns
 * 0, -ESRCH if it is gone, or another negative errno. */
int proc_kill(const struct proc_stat *p, int signo);
