/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A cgroup (version 2) for each job, below elasticd's own: for hosts where systemd makes no scopes,
 * but elasticd can write to the hierarchy. The job's agent may make sub-groups in it.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"

#include <stdint.h>
#include <sys/types.h>

/* The directory of this process's own cgroup if sub-groups can be made there. Returns owned or
 * NULL. */
char *cgroupfs_own(void);

/* Where cgroupfs_make() would make one. Returns owned or NULL (no memory). */
char *cgroupfs_name(const char *parent, const char *run);

/* Makes <parent>/elasticd.<run> from scratch and gives it to uid. Returns 0 with its owned path, or
 * a negative errno. */
_must_check_ int cgroupfs_make(
	const char *parent, const char *run, uid_t uid, char **ret, struct error *err);

/* Gives an existing cgroup to uid, as the kernel's documentation says of delegation. */
_must_check_ int cgroupfs_give(const char *path, uid_t uid, struct error *err);

/* Removes a cgroup with those below it, unless it still has processes. Returns 0 or a negative
 * errno. */
_must_check_ int cgroupfs_remove(const char *path);

/* Removes the empty groups below parent that cgroupfs_make() made long ago, for a daemon that was
 * killed and never came back. now_s is seconds since the epoch. */
void cgroupfs_tidy(const char *parent, int64_t now_s);
