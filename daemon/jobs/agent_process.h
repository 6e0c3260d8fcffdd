/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Prepares and starts one elastic-agent process: the job's runtime directory with its socket,
 * specification and lock, the command line, and the connection to its socket. The directory belongs
 * to the job's user once it is complete.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"
#include "daemon/jobs/child.h"
#include "daemon/jobs/record.h"

#include <jansson.h>
#include <stdbool.h>

struct agent_process_options {
	const char *program;
	const char *runtime_dir;   /* the root; <runtime_dir>/jobs exists */
	const char *record_dir;	   /* the run's */
	const char *cgroup_parent; /* make a cgroup below it; NULL: none */
	const char *log_level;	   /* NULL: the agent's default */
	bool resume;
	const char *lost; /* why the agent before was lost, as far as known; or NULL */
};

/*
 * Makes a new runtime directory, binds agent.sock, takes the lock, and forks the agent, which waits
 * for child_go(). ret_socket is a connection to it, which the agent accepts when it listens. Where
 * a cgroup was made, r->cgroup names it (else NULL). Sets r->agent_pid and agent_ticks. No process
 * of an earlier agent may be left.
 */
_must_check_ int agent_process_start(const struct agent_process_options *o, struct job_record *r,
	const json_t *spec, struct child *ret_child, int *ret_socket, struct error *err);

/* Connects to the agent of job. Returns a descriptor, -ENOENT or -ECONNREFUSED where no agent
 * listens, -EAGAIN where it takes no connection now, -ENOTSOCK where the job's user has put
 * something else in the socket's place, or -EMFILE, -ENFILE, -ENOBUFS or -ENOMEM, which are
 * elasticd's own. err (may be NULL) names the path. Follows no symbolic link. */
_must_check_ int agent_process_connect(const char *runtime_dir, const char *job, struct error *err);

/* Returns 1 while any process of the job's agent is left, else 0. */
int agent_process_locked(const char *runtime_dir, const char *job);

/*
 * Opens a pidfd of the guard of r's run. Takes its pid from the record among the living, else from
 * r, and stores it in r. -ESRCH when the guard is gone. Uses nothing that the job's user could have
 * written.
 */
_must_check_ int agent_process_guard(const struct record_store *living, struct job_record *r);

/* Starts "elastic-agent --serve" on the run's record, to serve the one connection whose other end
 * is ret_socket. */
_must_check_ int agent_process_serve(const struct agent_process_options *o,
	const struct job_record *r, struct child *ret_child, int *ret_socket, struct error *err);

/* Removes the job's runtime directory. */
void agent_process_clear(const char *runtime_dir, const char *job);
