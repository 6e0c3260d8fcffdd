/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The asynchronous client, for programs with a loop. Calls on one connection are pipelined and
 * answered in order, so a stream ("more") needs a connection of its own.
 */

#include "common/base/budget.h"
#include "common/base/cleanup.h"
#include "common/loop/loop.h"

#include <jansson.h>
#include <stdbool.h>

#define VARLINK_TOO_MUCH "too much"

struct varlink_client;

/*
 * One answer. parameters (borrowed) is always an object. error is NULL or the full error name;
 * "disconnected" if the connection broke, VARLINK_TOO_MUCH if the answer has more values than
 * varlink_client_limit() allows (the connection then breaks). continues: more answers follow.
 */
typedef void (*varlink_answer_fn)(void *arg, const char *error, json_t *parameters, bool continues);

/* The connection ended; every open call got "disconnected" before. May free the client. */
typedef void (*varlink_closed_fn)(void *arg);

/* A client on a connected socket (takes fd): see common/varlink/socket.h. closed may be NULL. */
_must_check_ int varlink_client_new_fd(struct loop *loop, int fd, varlink_closed_fn closed,
	void *arg, struct varlink_client **ret);
/* Open calls are dropped without an answer; bytes to be sent still go out as far as the socket
 * takes them at once. */
struct varlink_client *varlink_client_free(struct varlink_client *c);
DEFINE_CLEANUP(struct varlink_client *, varlink_client_free)

/* method is the full name. Takes parameters (NULL means {}). fn may free the client. */
_must_check_ int varlink_client_call(struct varlink_client *c, const char *method,
	json_t *parameters, bool more, varlink_answer_fn fn, void *arg);

/* Sends fd (taken) with the next bytes, if possible: see varlink_options.descriptors. If another
 * one is still waiting, closes that one. */
void varlink_client_send_descriptor(struct varlink_client *c, int fd);

/* Reads and hands out, now, the answers that have come but that the loop has not read yet, and the
 * connection's end. May run closed(). Does nothing inside a callback of the same client, or while
 * it is paused. With limits it ends when the answers of the account have taken 20 ms in this turn:
 * the rest comes later. */
void varlink_client_catch_up(struct varlink_client *c);
/* Whether varlink_client_catch_up() has time in this turn. */
bool varlink_client_may_catch_up(const struct varlink_client *c);
/* Whether it ended for want of time: more may have come. */
bool varlink_client_lags(const struct varlink_client *c);

/* For a peer that is not trusted. */
struct varlink_client_limits {
	struct budget *budget; /* unfinished answers, and the time for all, count here, */
	uint64_t key;	       /* in this account */
	uint64_t message_ms;   /* within which an answer that has begun must be complete */
	size_t message_units;  /* of values in one answer: see json_units() */
};

/* Sets the limits. If the budget has no room, or an answer is over a limit, the connection ends;
 * while the client is paused its time stands still. Returns 0 or -ENOMEM. */
_must_check_ int varlink_client_limit(
	struct varlink_client *c, const struct varlink_client_limits *limits);

/* Stops or resumes reading: answers then wait in the socket's buffers (back-pressure). */
void varlink_client_pause(struct varlink_client *c, bool pause);
