/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds processes wherever they are and kills them: those of a run whose agent and guard are gone,
 * and those of a worker that is not the agent's descendant. Waits no longer than stated below;
 * elasticd still runs it in a process of its own (daemon/jobs/sweeper.h).
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SWEEP_ANY ((uid_t)-1)

struct sweep;

/* Prepares to kill the processes that started with entry ("NAME=value") in their environment and
 * belong to uid; SWEEP_ANY: to any user. Returns 0 and an owned sweep, or -ENOMEM. */
_must_check_ int sweep_new(const char *entry, uid_t uid, struct sweep **ret);
struct sweep *sweep_free(struct sweep *s);
DEFINE_CLEANUP(struct sweep *, sweep_free)

/*
 * Kills them with SIGKILL, never the caller itself, until no new one is found; does not wait until
 * they are gone. Returns how many were signalled by now, in all calls, or a negative errno.
 * ret_unsure: a process is in the middle of an execve() and cannot be checked yet, so the caller
 * should call again in a moment.
 */
_must_check_ int sweep_kill(struct sweep *s, bool *ret_unsure);

/* Facts that identify a run's processes. All borrowed. */
struct sweep_target {
	const char *run;
	uid_t uid;
	const char *cgroup;   /* the directory of its cgroup, or NULL */
	pid_t guard;	      /* its agent's guard, dead or alive; 0: never started */
	uint64_t guard_ticks; /* the guard's start time; 0: not known */
};

/*
 * Kills with SIGKILL what is left of a run, in this order: every process of its cgroup; those of
 * uid below the guard or in the guard's session, whatever their environment says; those of uid that
 * started with ELASTICD_RUN=<run>, and their descendants; last the guard itself. Checks a process
 * whose environment cannot be read again for up to a second, then leaves it alone. Blocks for
 * little more than that second, unless a process' data is on a file system that hangs. Returns how
 * many were signalled, or a negative errno.
 */
_must_check_ int sweep_run(const struct sweep_target *target, struct error *err);
