/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The shared part of the verbs for a job's queue: the job, and the socket to use. Outside of jobs
 * that is elasticd's; in a worker, if JOB is left out or "-", it is the socket of its own agent.
 * Functions that return int here return an exit status, as those of client/base/ctl.h.
 */

#include "client/base/args.h"
#include "client/base/ctl.h"
#include "common/loop/loop.h"
#include "common/varlink/client.h"

#define QUEUE_METHOD(name) "io.elasticd.Queue." name

enum {
	QUEUE_PAYLOAD_MAX = 1 << 20,
	QUEUE_FORMAT_LEN_MAX = 31,
	QUEUE_PATIENCE_MS = 10000, /* how late an answer may be before we give up */
};

struct queue_client {
	struct ctl *ctl;
	const char *job;   /* NULL: the job of the worker that runs us */
	const char *queue; /* NULL: the queue without a name */
};

/* Takes JOB from args. expected: the arguments after it, if there must be some: JOB then cannot be
 * left out, and an error names them. NULL: JOB can be left out. Reads --queue if has_queue. */
_must_check_ int queue_begin(struct ctl *ctl, struct args *args, bool has_queue,
	const char *expected, struct queue_client *ret);
/* Sets ret to the job of the worker that runs us, for verbs that work nowhere else. */
_must_check_ int queue_begin_worker(struct ctl *ctl, struct queue_client *ret);

/* Checks --format, which may be NULL. */
_must_check_ int queue_format(const struct ctl *ctl, const char *format);

/* Prints on standard error what became of a task that did not succeed. */
void queue_print_outcome(const struct ctl *ctl, const json_t *outcome);

/* {"job": ...}, or {} in a worker, to add to. */
json_t *queue_parameters(const struct queue_client *q);
/* As queue_parameters(), with the queue if the user named one. */
json_t *queue_named(const struct queue_client *q);
/* Adds the rest of --timeout to p as key, if it was given: the service then ends the wait, and a
 * moment later we do. Takes and returns p. */
json_t *queue_deadline(const struct queue_client *q, json_t *p, const char *key);

/* One call; method is a whole name, QUEUE_METHOD(...). As ctl_call(). */
_must_check_ int queue_call(
	struct queue_client *q, const char *method, json_t *parameters, json_t **ret);

/* As queue_call(), with errors as in ctl_try(). */
_must_check_ int queue_try(struct queue_client *q, const char *method, json_t *parameters,
	json_t **ret, char **ret_error, struct error *err);

/* Connects for a loop, and tells the service who we are; the connection ends if the service refuses
 * that. */
_must_check_ int queue_connect(struct queue_client *q, struct loop *loop, varlink_closed_fn closed,
	void *arg, struct varlink_client **ret);

/* A JSON string of text with U+FFFD for bytes that are not UTF-8: no name contains that, so the
 * service reports the error. Owned, NULL without memory. */
json_t *queue_text(const char *text);
/* "a,b" as an array; owned, NULL without memory. */
json_t *queue_words(const char *text);
/* Reads a task's number from the command line. False if it is not one. */
bool queue_number(const char *text, int64_t *ret);
/* An array of the numbers that args has left; NULL in ret after an error. */
_must_check_ int queue_numbers(struct queue_client *q, const struct args *args, json_t **ret);
