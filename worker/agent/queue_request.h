/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How a coordinator's calls of io.elasticd.Queue are made. A coordinator outside the job makes them
 * through elasticd, which may be restarted, and may end before it has answered. Such a call is made
 * again while its time lasts, where that does no harm: it was not sent yet, making it twice is the
 * same as making it once, or the agent knows it by a number.
 */

#include "worker/base/calls.h"
#include "worker/base/queue_handle.h"

#define QUEUE_METHOD(name) "io.elasticd.Queue." name

/* So many numbers of tasks go into one message. */
enum { PIECE_TASKS = 16384 };
static inline size_t piece_of(size_t n)
{
	return n < PIECE_TASKS ? n : PIECE_TASKS;
}

struct queue_request {
	const char *method;
	struct params *params;		    /* its parameters; taken */
	const char *limit;		    /* the name of its time limit; NULL: it does not wait */
	int timeout_ms;			    /* that limit; negative: none */
	const struct answer_reader *reader; /* or else ret */
	json_t **ret;			    /* may be NULL */
	const struct conn *beside;	    /* as in struct wait */
	bool repeatable;		    /* making it twice is the same as making it once */
	bool numbered;			    /* with a number it is */
	bool endless; /* without a limit it waits for others for as long as that takes */
};
enum elasticd_status queue_request(struct elasticd *h, const struct queue_request *r);

/* A request that waits at a queue; limit is "timeout_ms". */
enum elasticd_status queue_wait(struct elasticd_queue *q, const char *method, struct params *a,
	int timeout_ms, const struct answer_reader *reader);
/* The same for one that may get the error of the queue, which is returned once. */
enum elasticd_status queue_wait_numbered(struct elasticd_queue *q, const char *method,
	struct params *a, const char *limit, int timeout_ms, const struct answer_reader *reader);
/* A request that does not wait. */
enum elasticd_status queue_prompt(
	struct elasticd *h, const char *method, struct params *a, bool repeatable, json_t **ret);

/* The job, where a call has to name it; the job and the queue. */
void params_job(struct params *a, const struct elasticd *h);
void params_queue(struct params *a, const struct elasticd_queue *q);
void params_tasks(struct params *a, const int64_t *tasks, size_t n);
/* NULL: left out. */
void params_payload(struct params *a, const struct elasticd_queue_bytes *b);
/* The lease of this thread, where the call has no limit: the agent refuses what would wait for it.
 */
void params_lease(struct params *a, const struct elasticd *h, int timeout_ms);
