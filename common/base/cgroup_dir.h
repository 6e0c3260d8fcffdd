/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Finds control groups of processes. Makes and changes none. */

#include <sys/types.h>

/*
 * The directory of a process's control group: of version 2, or with controller (such as "memory")
 * of the hierarchy of version 1 that has it. Owned; NULL where the hierarchy is not mounted, or the
 * mount of a container does not show the group; NULL also without memory.
 */
char *cgroup_dir_of(pid_t pid, const char *controller);
