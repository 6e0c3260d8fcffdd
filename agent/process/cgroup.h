/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The control group (v2) in which a run's workers start, below the agent's own, where one can be
 * made. With it the kernel knows when every descendant is gone; without one the agent uses the
 * process tree. Never touches a cgroup that it has not made, except to hand down controllers.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"
#include "common/spec/spec.h"

#include <stdbool.h>

struct cgroup;

/*
 * Makes <own cgroup>/elastic.<run>. Returns 0, with *ret NULL where there is no writable cgroup v2
 * or ELASTIC_CGROUP=off is in the environment. -ENOMEM is the only error.
 */
_must_check_ int cgroup_new(const char *run, struct cgroup **ret);
/* Frees c, and removes the directory if it is empty. */
struct cgroup *cgroup_free(struct cgroup *c);
DEFINE_CLEANUP(struct cgroup *, cgroup_free)
/* Frees c, but leaves the directory for another process to remove. */
struct cgroup *cgroup_drop(struct cgroup *c);

/*
 * Begins an attempt: makes a leaf for it and removes the earlier one's. A leaf is never used again
 * after a kill, because some kernels kill every process started in such a cgroup.
 */
void cgroup_begin(struct cgroup *c, int attempt);

/* Makes the leaf again after another program has removed it; systemd removes empty cgroups when it
 * shuts down in a container. Returns 0, or a negative errno: there is no leaf from now on. */
int cgroup_make_again(struct cgroup *c);

/* Whether cgroup_make_again() had to make the whole group again, so that no limit holds. Returns
 * true once for each time. */
bool cgroup_limits_lost(struct cgroup *c);

/* Descriptor of the attempt's leaf, for starting processes in it; borrowed. -1 where there is none.
 */
int cgroup_fd(const struct cgroup *c);
const char *cgroup_dir(const struct cgroup *c);

/* For a process that closes all descriptors: closes the group's, and opens it again. */
void cgroup_close(struct cgroup *c);
void cgroup_reopen(struct cgroup *c);

/* Sends SIGKILL to all processes in it. Returns 0 or a negative errno. */
int cgroup_kill(struct cgroup *c);

/* True when a living process is in it; false also when that cannot be read. */
bool cgroup_populated(const struct cgroup *c);

/* How much memory it has now, page cache included, and how much CPU time all processes that were in
 * it have used; -1 where the kernel does not count that here. */
void cgroup_usage(const struct cgroup *c, int64_t *ret_memory_bytes, int64_t *ret_cpu_ms);

/*
 * Sets limits. exclusive: the agent's own cgroup holds only the agent and its guard, so both may be
 * moved to a leaf of it to hand down controllers. Returns 0, or a negative errno with err naming
 * the first limit that could not be set; the others are set all the same.
 */
int cgroup_limit(
	struct cgroup *c, const struct spec_resources *res, bool exclusive, struct error *err);
