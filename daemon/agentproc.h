/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Everything around one elastic-agent process: the job's runtime directory with its socket,
 * specification and lock, the command line, and the way to its socket. The directory belongs to the
 * job's user once it is complete.
 */

#include "common/cleanup.h"
#include "common/error.h"
#include "daemon/child.h"
#include "daemon/record.h"

#include <jansson.h>
#include <stdbool.h>

struct agentproc_options {
	const char *program;
	const char *runtime_dir;   /* the root; <runtime_dir>/jobs exists */
	const char *record_dir;	   /* the run's */
	const char *cgroup_parent; /* make a cgroup below it; NULL: none */
	const char *log_level;	   /* NULL: the agent's default */
	bool resume;
};

/*
 * Makes the runtime directory afresh, binds agent.sock, takes the lock, and forks the agent, which
 * waits for child_go(). ret_socket is a connection to it, which it will find when it listens. Where
 * a cgroup was made, r->cgroup names it (else NULL). r->agent_pid and agent_ticks are set. No
 * process of an earlier agent may be left.
 */
_must_check_ int agentproc_start(const struct agentproc_options *o, struct job_record *r,
	const json_t *spec, struct child *ret_child, int *ret_socket, struct error *err);

/* A connection to the agent of job: a descriptor, -ENOENT or -ECONNREFUSED where none listens, or
 * another negative errno. Follows no symbolic link. */
_must_check_ int agentproc_connect(const char *runtime_dir, const char *job);

/* 1 while any process of the job's agent is left, 0 when none is. */
int agentproc_locked(const char *runtime_dir, const char *job);

/* Whose the runtime directory of job is, as elasticd made it, and the specification in it, which is
 * what that user says (owned; NULL where it cannot be read). */
_must_check_ int agentproc_owner(
	const char *runtime_dir, const char *job, uid_t *ret_uid, json_t **ret_spec);

/*
 * A pidfd of the guard, by the record, or by the lock file where the record does not know it yet.
 * -ESRCH when it is gone.
 */
_must_check_ int agentproc_guard(const char *runtime_dir, struct job_record *r);

/* Starts "elastic-agent --serve" on the run's record for one connection, which ret_socket is the
 * other end of. */
_must_check_ int agentproc_serve(const struct agentproc_options *o, const struct job_record *r,
	struct child *ret_child, int *ret_socket, struct error *err);

/* Removes the job's runtime directory. */
void agentproc_clear(const char *runtime_dir, const char *job);
