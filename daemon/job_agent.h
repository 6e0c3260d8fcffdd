/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The agent of a job: its process, its scope, its connection. Turns what happens to them into
 * events of the job's life (daemon/life.h) and its answers into the mirror.
 */

#include "daemon/job.h"

/* Prepares and forks an agent; it is let go, and JOB_STARTED or SPAWN_FAILED follows, from the
 * loop. */
_must_check_ int job_agent_start(struct job *j, const json_t *spec, bool resume, struct error *err);

/* Opens the stream on a connected socket (takes fd). */
_must_check_ int job_agent_link(struct job *j, int fd);

/* Watches a guard that an earlier elasticd started (takes pidfd). */
_must_check_ int job_agent_adopt(struct job *j, int pidfd);

/* Counts an agent that went without a verdict, once until one answers or is started. */
void job_agent_note_loss(struct job *j);

/* The verdict that is on disk, put into the mirror. True where there is one. */
bool job_agent_read_verdict(struct job *j);

/* For daemon/agent_call.c: a call made at since_us was not answered in time; an earlier one's time
 * stays. The agent is asked once more, so that its next answer is heard. */
void job_agent_silent(struct job *j, int64_t since_us);
/* It answered. */
void job_agent_heard(struct job *j);

/* The cgroup of j's scope where pid is in it. Returns owned or NULL. */
char *job_agent_scope(const struct job *j, pid_t pid);

/* Drops the connection; the process goes on. */
void job_agent_unlink(struct job *j);
/* Drops everything of it. */
void job_agent_drop(struct job *j);
