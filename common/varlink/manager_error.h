/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The parameters of errors of io.elasticd.Manager that elasticd and agents both answer with: a
 * message for people, and what programs need to tell cases apart. All return owned JSON.
 */

#include <jansson.h>
#include <stdint.h>

/* NotFound */
json_t *manager_no_job(const char *job);
json_t *manager_no_role(const char *role);
json_t *manager_no_worker(const char *worker);
json_t *manager_no_attempt(int64_t attempt);
json_t *manager_no_host(const char *host, const char *message);

/* AlreadyExists: a job of this name is active, as run ("": the caller may not see it). */
json_t *manager_job_exists(const char *job, const char *run);

/* FailedPrecondition: the job has ended, or its state is not the one that the call needs; it has
 * not ended; a worker runs, or is being stopped. */
json_t *manager_not_active(const char *job, const char *state);
json_t *manager_still_active(const char *job, const char *state);
json_t *manager_worker_active(const char *worker, const char *state);

/* InvalidArgument. value (NULL: none) is named before message, which may begin with the field. */
json_t *manager_invalid(const char *field, const char *value, const char *message);

/* ResourceExhausted: the limit of what ("jobs of one user") is reached. */
json_t *manager_limit(const char *what, int64_t limit);

/* Internal. code: a negative errno. */
json_t *manager_internal(const char *message, int code);

/* Unavailable. reason (NULL: none): what was found in place of the agent's socket. */
json_t *manager_agent_lost(const char *job);
json_t *manager_agent_silent(const char *job, int64_t since_us, int64_t now_us, const char *reason);
json_t *manager_shutting_down(void);
