/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Delivers one notice of preemption to one job's agent. If the agent is lost or just being started,
 * the notice is delivered as soon as an agent answers; a job that ends meanwhile does not need it.
 * Decides nothing about the job.
 */

#include "common/base/cleanup.h"
#include "daemon/jobs/job.h"

#include <jansson.h>
#include <stdint.h>

struct notice_delivery;

/* The notice. grace_ms and deadline_us are SPEC_UNSET if its source did not give them. */
struct notice_delivery_notice {
	const char *source;
	const char *reason;
	int64_t grace_ms;    /* from now */
	int64_t deadline_us; /* real time */
};

/* Reports the result, once: error is NULL if the agent took the notice, else the name of an error
 * of io.elasticd.Manager with its parameters (borrowed): "FailedPrecondition" for a run that is
 * over. Never runs within notice_delivery_new(). May free the delivery. */
typedef void (*notice_delivery_fn)(void *arg, const char *error, json_t *parameters);

/* Copies the notice. */
_must_check_ int notice_delivery_new(struct job *j, const struct notice_delivery_notice *n,
	notice_delivery_fn fn, void *arg, struct notice_delivery **ret);
/* Drops the delivery; fn will not run. */
struct notice_delivery *notice_delivery_free(struct notice_delivery *t);
