/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds processes wherever they went by an entry of the environment that they were started with,
 * and kills them: what is left of a run whose agent and guard are both gone, and of a worker that
 * is no descendant of its agent.
 */

#include "common/cleanup.h"
#include "common/error.h"

#include <stdbool.h>
#include <sys/types.h>

#define SWEEP_ANY ((uid_t)-1)

struct sweep;

/* Of the processes that started with entry ("NAME=value") and belong to uid, SWEEP_ANY: to anybody.
 * Returns 0 and an owned sweep, or -ENOMEM. */
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

/*
 * The last resort after an agent and its guard are both gone: kills with SIGKILL every process of
 * cgroup_dir (NULL: none) and every one that started with ELASTICD_RUN=<run> and belongs to uid, as
 * sweep_look(); what cannot be told yet it looks at again for up to a second or so. Returns how
 * many were signalled, or a negative errno.
 */
int sweep_run(const char *run, uid_t uid, const char *cgroup_dir, struct error *err)
	__attribute__((warn_unused_result));
