/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Serves /metrics, /healthz and /readyz: to all who reach the port of the configuration, and on
 * metrics.sock in the runtime directory to those who may use elasticd, who see their own jobs
 * there. Asks an agent for its numbers when a reader asks, and the last ones are older than
 * METRICS_FRESH_MS or than a change of the job; does nothing at all otherwise.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"
#include "daemon/api/daemon.h"
#include "daemon/jobs/job.h"

enum {
	METRICS_FRESH_MS = 30000,   /* of a job that has not changed meanwhile */
	METRICS_PATIENCE_MS = 1000, /* a reader waits no longer for agents */
	METRICS_ENDED_S = 3600,	    /* how long readers see that a run has ended */
	METRICS_ENDED_MAX = 200,    /* and of how many runs, the newest */
};

struct metrics;

/* Logs why a socket cannot be served, and goes on without it. Returns 0, or -ENOMEM. */
_must_check_ int metrics_new(struct daemon *d, struct metrics **ret);
struct metrics *metrics_free(struct metrics *m);
DEFINE_CLEANUP(struct metrics *, metrics_free)

/* Call it after each change of a job: counts those that end. */
void metrics_job_changed(struct metrics *m, struct job *j);
