/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The agent of a job: its process, its scope, its connection. Turns what happens to them into
 * events of the job's life (daemon/jobs/job_life.h), and the agent's answers into the mirror.
 */

#include "daemon/jobs/job.h"

/* Prepares and forks an agent. It is let go from the loop; JOB_STARTED or SPAWN_FAILED follows. */
_must_check_ int job_agent_start(struct job *j, const json_t *spec, bool resume, struct error *err);

/* Counts a start that failed as a loss, and reports it to the machine: may start the next agent. */
void job_agent_spawn_failed(struct job *j, const struct error *err);

/* Opens the stream on a connected socket (takes fd). */
_must_check_ int job_agent_link(struct job *j, int fd);

/* Watches a guard that an earlier elasticd started (takes pidfd). */
_must_check_ int job_agent_adopt(struct job *j, int pidfd);

/* Counts the loss of an agent without a verdict; calls until the next agent answers or is started
 * count as the same loss. */
void job_agent_note_loss(struct job *j);

/* Puts the verdict on disk into the mirror. Returns true if there is one. */
bool job_agent_read_verdict(struct job *j);
/* The same for a run whose files were not read when it was taken up; with one, no agent was lost.
 */
bool job_agent_found_ended(struct job *j);

/* For daemon/api/agent_call.c: the agent did not answer a call made at since_us in time. The time
 * of the oldest such call stays. Sends the agent a Ping, so that its next answer is noticed. */
void job_agent_silent(struct job *j, int64_t since_us);
/* The agent has answered. */
void job_agent_heard(struct job *j);

/* The cgroup of j's scope where pid is in it. Returns owned or NULL. */
char *job_agent_scope(const struct job *j, pid_t pid);

/* Drops the connection; the process goes on. */
void job_agent_unlink(struct job *j);
/* Drops connection, scope request, child and guard. */
void job_agent_drop(struct job *j);
