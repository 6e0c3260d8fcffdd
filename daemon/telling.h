/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One notice of preemption on its way to one job's agent. A job whose agent is lost, or is just
 * being started, is told as soon as an agent answers; one that ends meanwhile need not be. Decides
 * nothing about the job.
 */

#include "common/cleanup.h"
#include "daemon/job.h"

#include <jansson.h>
#include <stdint.h>

struct telling;

/* What is told. grace_ms and deadline_us: SPEC_UNSET where nobody said. */
struct telling_notice {
	const char *source;
	const char *reason;
	int64_t grace_ms;    /* from now */
	int64_t deadline_us; /* real time */
};

/* How it went, once: error is NULL where the agent took it, else the name of an error of
 * io.elasticd.Manager with its parameters (borrowed): "NotActive" for a run that is over. Frees
 * nothing; never runs within telling_new(). May free the telling. */
typedef void (*telling_fn)(void *arg, const char *error, json_t *parameters);

/* Copies what is told. */
_must_check_ int telling_new(struct job *j, const struct telling_notice *n, telling_fn fn,
	void *arg, struct telling **ret);
/* Forgets it: fn is not called. */
struct telling *telling_free(struct telling *t);
