/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The asynchronous caller's side, for programs with a loop. Calls on one connection are pipelined
 * and answered in order; a stream ("more") therefore wants a connection of its own.
 */

#include "common/budget.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/loop.h"

#include <jansson.h>
#include <stdbool.h>

struct varlink_client;

/*
 * One answer. parameters (borrowed) is always an object. error is NULL or the full error name; when
 * the connection broke it is "disconnected". continues: more answers follow.
 */
typedef void (*varlink_answer_fn)(void *arg, const char *error, json_t *parameters, bool continues);

/* The connection ended; every open call got its answer "disconnected" before. May free the client.
 */
typedef void (*varlink_closed_fn)(void *arg);

/* Connects without blocking (a UNIX socket answers at once). Returns 0 or a negative errno, as
 * varlink_sync_connect(). */
_must_check_ int varlink_client_connect(struct loop *loop, const char *path, uid_t also,
	varlink_closed_fn closed, void *arg, struct varlink_client **ret, struct error *err);
/* The same on a connected socket (takes fd). */
_must_check_ int varlink_client_new_fd(struct loop *loop, int fd, varlink_closed_fn closed,
	void *arg, struct varlink_client **ret);
/* Open calls are forgotten without an answer; what was asked is still sent as far as it goes
 * without waiting. */
struct varlink_client *varlink_client_free(struct varlink_client *c);
DEFINE_CLEANUP(struct varlink_client *, varlink_client_free)

/* method is the full name. Takes parameters (NULL means {}). fn may free the client. */
_must_check_ int varlink_client_call(struct varlink_client *c, const char *method,
	json_t *parameters, bool more, varlink_answer_fn fn, void *arg);

/* Has fd (taken) go with the next bytes that leave, where it can be sent: see
 * varlink_options.descriptors. One that waits for that is closed and replaced. */
void varlink_client_give(struct varlink_client *c, int fd);

/* Hands out, now, the answers that have come and that the loop has not read yet, and the
 * connection's end. May run closed(). Does nothing inside a callback of the same client, or while
 * it is paused. */
void varlink_client_catch_up(struct varlink_client *c);

/* From now on the beginnings of answers count, in the account of key: where there is no room for
 * one the connection ends. Returns 0 or -ENOMEM. */
_must_check_ int varlink_client_count(struct varlink_client *c, struct budget *b, uint64_t key);

/* Stops or resumes reading: the far side's answers wait in its buffers (back-pressure). */
void varlink_client_pause(struct varlink_client *c, bool pause);
