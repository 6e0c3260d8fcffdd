/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the verbs about a job's queue share: which job, and by which socket. Outside of jobs that is
 * elasticd's; in a worker, where JOB is left out or "-", it is that of its own agent. Functions
 * that return int here return an exit status, as those of ctl.h.
 */

#include "client/args.h"
#include "client/ctl.h"
#include "common/loop.h"
#include "common/varlink_client.h"

#define QUEUE_METHOD(name) "io.elasticd.Queue." name

enum {
	QUEUE_PAYLOAD_MAX = 1 << 20,
	QUEUE_FORMAT_LEN_MAX = 31,
	QUEUE_PATIENCE_MS = 10000, /* from when the service should have answered until we leave */
};

struct queue_client {
	struct ctl *ctl;
	const char *job;   /* NULL: that of the worker in which we are */
	const char *queue; /* NULL: the one without a name */
};

/* Takes JOB from args. expected: what else stands behind it, so that it cannot be left out; told
 * where nothing is there. NULL: it can. --queue is read where the verb has it. */
_must_check_ int queue_begin(struct ctl *ctl, struct args *args, bool has_queue,
	const char *expected, struct queue_client *ret);
/* The job is that of the worker in which we are: there is no other way. */
_must_check_ int queue_begin_worker(struct ctl *ctl, struct queue_client *ret);

/* Checks --format, which may be NULL. */
_must_check_ int queue_format(const struct ctl *ctl, const char *format);

/* What became of a task that did not succeed, on standard error. */
void queue_say_outcome(const struct ctl *ctl, const json_t *outcome);

/* {"job": ...}, or {} where we are in a worker, to add to. */
json_t *queue_parameters(const struct queue_client *q);
/* The same with the queue, if one was named. */
json_t *queue_named(const struct queue_client *q);
/* Adds what is left of --timeout as key, if it was given: the service then ends the wait, and a
 * moment later we do. Takes and returns p. */
json_t *queue_deadline(const struct queue_client *q, json_t *p, const char *key);

/* One call; method is a whole name, QUEUE_METHOD(...). As ctl_call(). */
_must_check_ int queue_ask(
	struct queue_client *q, const char *method, json_t *parameters, json_t **ret);

/* The same as ctl_try(). */
_must_check_ int queue_try(struct queue_client *q, const char *method, json_t *parameters,
	json_t **ret, char **ret_error, struct error *err);

/* A connection for a loop, which has said who we are: an answer to that which is an error breaks
 * it. */
_must_check_ int queue_connect(struct queue_client *q, struct loop *loop, varlink_closed_fn closed,
	void *arg, struct varlink_client **ret);

/* What the service is to look at: a JSON string of text, in which U+FFFD stands for what is no
 * UTF-8. No name has it, and the service says so. Owned, NULL without memory. */
json_t *queue_text(const char *text);
/* "a,b" as an array; owned, NULL without memory. */
json_t *queue_words(const char *text);
/* A task's number from the command line. False where it is none. */
bool queue_number(const char *text, int64_t *ret);
/* An array of those that args has left; said, and NULL in ret, where one is none. */
_must_check_ int queue_numbers(struct queue_client *q, const struct args *args, json_t **ret);
