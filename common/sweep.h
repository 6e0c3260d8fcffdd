/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds processes wherever they went and kills them: what is left of a run whose agent and guard
 * are both gone, and of a worker that is no descendant of its agent. Waits for nothing longer than
 * it says; elasticd still has a process of its own do it (daemon/sweeper.h).
 */

#include "common/cleanup.h"
#include "common/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SWEEP_ANY ((uid_t)-1)

struct sweep;

/* Of the processes that started with entry ("NAME=value") in their environment and belong to uid,
 * SWEEP_ANY: to anybody. Returns 0 and an owned sweep, or -ENOMEM. */
_must_check_ int sweep_new(const char *entry, uid_t uid, struct sweep **ret);
struct sweep *sweep_free(struct sweep *s);
DEFINE_CLEANUP(struct sweep *, sweep_free)

/*
 * Kills them with SIGKILL, never the caller itself, until nothing new is found; does not wait for
 * the killed to vanish. Returns how many were signalled by now, in all looks, or a negative errno.
 * ret_unsure: some process is amid an execve() and cannot be told yet, so that the caller should
 * look again in a moment.
 */
_must_check_ int sweep_look(struct sweep *s, bool *ret_unsure);

/* Kills every process of a cgroup at once; does not wait for anything. Returns 0 or a negative
 * errno, also where the kernel does not know how (before Linux 5.14). */
int sweep_cgroup(const char *dir);

/* What is known of a run. All borrowed. */
struct sweep_target {
	const char *run;
	uid_t uid;
	const char *cgroup;   /* the directory of its cgroup, or NULL */
	pid_t guard;	      /* its agent's guard, dead or alive; 0: none was ever started */
	uint64_t guard_ticks; /* when that was started; 0: not known */
};

/*
 * Kills with SIGKILL what is left of a run, in this order: every process of its cgroup; those of
 * uid that are below the guard, or in the session that the guard began, whatever can be read of
 * them; those of uid that started with ELASTICD_RUN=<run>, and their descendants; at last the guard
 * itself. A process whose environment cannot be told is looked at again for a second, and left
 * where nothing else gives it away. Blocks; it takes little more than that second at most, unless
 * what a process is asked for lies in a file that hangs. Returns how many were signalled, or a
 * negative errno.
 */
_must_check_ int sweep_run(const struct sweep_target *target, struct error *err);
