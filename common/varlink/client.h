/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The asynchronous client, for programs with a loop. Calls on one connection are pipelined and
 * answered in order, so a stream ("more") needs a connection of its own.
 */

#include "common/base/budget.h"
#include "common/base/cleanup.h"
#include "common/base/error.h"
#include "common/loop/loop.h"

#include <jansson.h>
#include <stdbool.h>

struct varlink_client;

/*
 * One answer. parameters (borrowed) is always an object. error is NULL or the full error name;
 * "disconnected" if the connection broke. continues: more answers follow.
 */
typedef void (*varlink_answer_fn)(void *arg, const char *error, json_t *parameters, bool continues);

/* The connection ended; every open call got "disconnected" before. May free the client. */
typedef void (*varlink_closed_fn)(void *arg);

/* Connects without blocking (a UNIX socket answers at once). Returns 0 or a negative errno, as
 * varlink_sync_connect(). */
_must_check_ int varlink_client_connect(struct loop *loop, const char *path, uid_t also,
	varlink_closed_fn closed, void *arg, struct varlink_client **ret, struct error *err);
/* The same on a connected socket (takes fd). */
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
void varlink_client_give(struct varlink_client *c, int fd);

/* Reads and hands out, now, the answers that have come but that the loop has not read yet, and the
 * connection's end. May run closed(). Does nothing inside a callback of the same client, or while
 * it is paused. */
void varlink_client_catch_up(struct varlink_client *c);

/* From now on unfinished answers count in the account of key, and an answer that has begun must be
 * complete within message_ms, unless the client is paused; otherwise, or if the budget has no room,
 * the connection ends. Returns 0 or -ENOMEM. */
_must_check_ int varlink_client_limit(
	struct varlink_client *c, struct budget *b, uint64_t key, uint64_t message_ms);

/* Stops or resumes reading: answers then wait in the socket's buffers (back-pressure). */
void varlink_client_pause(struct varlink_client *c, bool pause);
