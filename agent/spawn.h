/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Starts one worker process: its own session, killed when its parent dies, born inside its cgroup,
 * with clean signals and nothing inherited but what it is given. The caller is stopped until the
 * program is executing (as with vfork), so a failure to execute is known at once.
 */

#include "common/cleanup.h"
#include "common/spec.h"

#include <sys/types.h>

struct spawn_request {
	const char *program; /* path, from spawn_find() */
	char *const *argv;
	char *const *envp;
	const char *cwd; /* NULL: the caller's */
	int umask;	 /* SPEC_UNSET: inherited */
	const struct spec_rlimit *limits;
	size_t n_limits;
	int in, out, err; /* -1: inherited */
	int cgroup_fd;	  /* directory of a cgroup v2, or -1 */
};

#define SPAWN_STAGES(X)                           \
	X(CLONE, "clone")                         \
	X(SESSION, "setsid")                      \
	X(CGROUP, "join the cgroup")              \
	X(LIMIT, "set a resource limit")          \
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
 * Tries whether a process born into the cgroup lives: some kernels kill it when a cgroup involved
 * was killed before. If not, workers move in by themselves from now on, which is slower.
 */
void spawn_probe_cgroup(int cgroup_fd);

/* Raises this process's own limit of descriptors as far as it may; workers get the old one back. */
void spawn_raise_nofile(void);

const char *spawn_stage_name(enum spawn_stage s);

/*
 * Finds a program as a shell does: a name with a slash stands as it is, others are looked for along
 * path (relative entries count from cwd). Returns 0 and an owned path, -ENOENT, or -EACCES
 * where the name exists but cannot be executed.
 */
_must_check_ int spawn_find(const char *name, const char *path, const char *cwd, char **ret);
