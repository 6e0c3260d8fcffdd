/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The last resort after an agent and its guard are both gone: finds and kills what is left of a
 * run, by the job's cgroup and by the ELASTICD_RUN entry that every worker's environment carries.
 */

#include "common/error.h"

#include <sys/types.h>

/*
 * Kills with SIGKILL every process of cgroup_dir (NULL: none) and every one that started with
 * ELASTICD_RUN=<run> and belongs to uid; never the caller itself. Repeats until nothing
 * new is found. Does not wait for the killed to vanish. Returns how many were signalled, or a
 * negative errno.
 */
int sweep_run(const char *run, uid_t uid, const char *cgroup_dir, struct error *err)
	__attribute__((warn_unused_result));
