/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reads io.elasticd.Manager.Job objects, and waits until a job is in a wanted state. */

#include "client/base/address.h"
#include "client/base/ctl.h"

/* Whether the run has ended. */
bool job_ended(const json_t *job);
bool job_in(const json_t *job, const char *state);

/* Whether the job runs, but is not ready yet (`ready` of its specification). */
bool job_unready(const json_t *job);

/* The time when the job entered its state, as far as the job says; 0 when unknown. */
int64_t job_since_us(const json_t *job);

/* Number of workers, of role unless that is NULL; -1 if the job does not say. */
int job_workers(const json_t *job, const char *role);

/* The exit status of its verdict; CTL_FAILED without one. */
int job_exit_status(const json_t *job);

/* Its verdict in a line: "failed with exit status 17: ..."; returns owned text. */
char *job_verdict_text(const json_t *job);

/* A process's end in few letters: "0", "17", "SIGKILL", "ENOENT"; "" while it runs. Returns buf. */
const char *job_exit_short(const json_t *exit_object, char buf[32]);

/* Calls Status; live: with memory, CPU and last lines. ret is owned. */
_must_check_ int job_status(struct ctl *ctl, const char *name, bool live, json_t **ret);

typedef bool (*job_test_fn)(const json_t *job, void *arg);

/*
 * Follows a job until test is true or it has ended; test NULL: until it has ended. The last state
 * is in ret (owned). Returns 0 or an exit status.
 */
_must_check_ int job_wait(
	struct ctl *ctl, const char *name, job_test_fn test, void *arg, json_t **ret);

/*
 * Waits until the job or run has ended, and prints how, and how long that took from began_us on:
 * "digits stopped after 3s". shown: its name in that line (NULL: the job's own); stopped: the words
 * for a job that was stopped (NULL: as for all others). ret is owned. Returns 0 or an exit status.
 */
_must_check_ int job_wait_end(struct ctl *ctl, const char *name, const char *shown,
	const char *stopped, int64_t began_us, json_t **ret);

/* The set of ranks that an address, or the option --rank (may be NULL), names; ret is NULL for all,
 * else owned. */
_must_check_ int job_ranks(struct ctl *ctl, const struct address *a, const char *rank, char **ret);
