/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The control group (v2) that a run's workers are born into, where one can be made: below the
 * agent's own. It makes "every descendant is gone" a fact that the kernel knows. Without one the
 * process tree serves. Never touches a cgroup that it has not made, except to hand down
 * controllers.
 */

#include "common/cleanup.h"
#include "common/error.h"
#include "common/spec.h"

#include <stdbool.h>

struct cgroup;

/*
 * Makes <own cgroup>/elastic.<run>. Returns 0; *ret is NULL where there is no writable cgroup v2 or
 * ELASTIC_CGROUP=off is in the environment. -ENOMEM is the only error.
 */
_must_check_ int cgroup_new(const char *run, struct cgroup **ret);
/* Removes the directory when it is empty. */
struct cgroup *cgroup_free(struct cgroup *c);
DEFINE_CLEANUP(struct cgroup *, cgroup_free)
/* The same without removing it: another process does that. */
struct cgroup *cgroup_drop(struct cgroup *c);

/*
 * Begins an incarnation: makes a leaf of its own for it and drops the earlier one's. A leaf is
 * never used again after a kill: kernels exist that kill whatever is born into such a cgroup.
 */
void cgroup_begin(struct cgroup *c, int attempt);

/* Makes the leaf again: others may remove what nobody is in, as a systemd does that goes down in a
 * container. Returns 0, or a negative errno: there is none from now on. */
int cgroup_anew(struct cgroup *c);

/* Whether all of it had gone by then and was made again, so that no limit holds. Tells it once. */
bool cgroup_is_bare(struct cgroup *c);

/* Descriptor of the incarnation's leaf, to be born into; borrowed. -1 where there is none. */
int cgroup_fd(const struct cgroup *c);
const char *cgroup_dir(const struct cgroup *c);

/* Lets go of the descriptor, and takes it again, for a process that closes all. */
void cgroup_close(struct cgroup *c);
void cgroup_reopen(struct cgroup *c);

/* Kills all that is in it with SIGKILL. Returns 0 or a negative errno. */
int cgroup_kill(struct cgroup *c);

/* Whether any living process is in it; false when that cannot be read. */
bool cgroup_populated(const struct cgroup *c);

/* How many processes the kernel has killed for want of memory so far: in this cgroup where it
 * counts them (ret_here is true), else on the whole host. */
int64_t cgroup_oom_kills(const struct cgroup *c, bool *ret_here);

/*
 * Sets limits. exclusive: the own cgroup holds nothing but this agent and its guard, so they may be
 * moved to a leaf of it to hand controllers down. Returns 0, or a negative errno with err naming
 * the first limit that does not hold; the others are set all the same.
 */
int cgroup_limit(
	struct cgroup *c, const struct spec_resources *res, bool exclusive, struct error *err);
