/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Starts one worker process: in a session of its own, killed when its parent dies, started inside
 * its cgroup, with default signals and only the descriptors that it is given. The caller waits
 * until the program executes (as with vfork), so it learns at once when that fails.
 */

#include "common/affinity/cpus.h"
#include "common/base/cleanup.h"
#include "common/spec/spec.h"

#include <sys/types.h>

struct spawn_request {
	const char *program; /* path, from spawn_find() */
	char *const *argv;
	char *const *envp;
	const char *cwd; /* NULL: the caller's */
	int umask;	 /* SPEC_UNSET: inherited */
	const struct spec_rlimit *limits;
	size_t n_limits;
	int in, out, err;	 /* -1: inherited */
	int cgroup_fd;		 /* directory of a cgroup v2, or -1 */
	const struct cpus *cpus; /* on which it may run; NULL: inherited */
};

#define SPAWN_STAGES(X)                           \
	X(CLONE, "clone")                         \
	X(SESSION, "setsid")                      \
	X(CGROUP, "join the cgroup")              \
	X(LIMIT, "set a resource limit")          \
	X(CPUS, "bind to its CPUs")               \
	X(CWD, "change to the working directory") \
	X(STREAM, "set up standard streams")      \
	X(EXEC, "exec")

enum spawn_stage {
#define X(name, text) SPAWN_##name,
	SPAWN_STAGES(X)
#undef X
};

/* Returns 0 and the pid, or a negative errno and the stage that failed. */
_must_check_ int spawn_process(
	const struct spawn_request *req, pid_t *ret_pid, enum spawn_stage *ret_stage);

/*
 * Tests whether a process started in the cgroup lives: some kernels kill it when a related cgroup
 * was killed before. If so, workers move themselves in from now on, which is slower.
 */
void spawn_probe_cgroup(int cgroup_fd);

/*
 * Notes which signals this process ignores; a worker gets the default for these. Signals that it
 * ignores later stay ignored in workers. Without this call a worker gets the default for each
 * signal, by a system call for each.
 */
void spawn_note_ignored(void);

/* Raises this process's limit of descriptors to its maximum; workers get the old limit back. */
void spawn_raise_nofile(void);

const char *spawn_stage_name(enum spawn_stage s);

/*
 * Finds a program as a shell does: a name with a slash is used as it is, others are looked for in
 * path (relative entries start at cwd; directories that may not be searched are skipped). Returns 0
 * and an owned path, -ENOENT, or -EACCES where a file of that name exists but cannot be executed.
 */
_must_check_ int spawn_find(const char *name, const char *path, const char *cwd, char **ret);
