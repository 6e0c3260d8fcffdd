/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Calls over a link to another agent of the group, at the end that makes them; calls_in.h is the
 * other end. Messages Call, Flow and Hangup of io.elasticd.Peer go out, Answer and Hangup come in.
 * Both agents of a link may call: a member's connections have positive numbers, the head's have
 * negative ones. Answers of one connection come in the order of its calls, so none has a number of
 * its own.
 */

#include "common/base/hash_chain.h"
#include "common/varlink/server.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

/* The way to the other agent. */
struct calls_way {
	/* Sends a message whose body is JSON text of len bytes. 0, -EMSGSIZE, -ENOMEM, or
	 * -ECONNRESET where there is no way. */
	int (*send)(void *arg, const char *method, const char *body, size_t len);
	/* True while much waits to be sent; the owner says when there is room. */
	bool (*congested)(void *arg);
	void *arg;
};

struct calls_out_connection;
struct call_out;

struct calls_out {
	struct calls_way way;
	int64_t last; /* number */
	bool negative;
	LIST_HEAD(, calls_out_connection) connections;
	struct chain by_number; /* the same */
};

/* An answer: error NULL or its name, parameters borrowed. continues: others follow; else the call
 * is over before this runs, and so is a connection for one call. Where the connection ends first,
 * error is "Unavailable", with a message. */
typedef void (*call_out_fn)(void *arg, const char *error, json_t *parameters, bool continues);

struct calls_out_message {
	uint64_t round;
	const char *worker; /* "": an operator's */
	const char *interface, *method;
	bool more, oneway; /* oneway: over at once, without an answer */
	const json_t *parameters;
	/* calls_out_forward(): runs when the last answer is no error; NULL: none. */
	loop_fn succeeded;
	void *arg;
};

void calls_out_init(struct calls_out *o, const struct calls_way *way, bool negative);
void calls_out_fini(struct calls_out *o);

/* owner: set to NULL when the connection ends; NULL: it is for one call. Returns NULL without
 * memory. */
struct calls_out_connection *calls_out_open(
	struct calls_out *o, struct calls_out_connection **owner);
/* 0, or what the way returns: then the call is over without an answer. ret: NULL, or valid until
 * the call is over. */
int calls_out_call(struct calls_out_connection *c, const struct calls_out_message *m,
	call_out_fn fn, void *arg, struct call_out **ret);
/* The same for a call of a server here, which gets these answers; oneway, it has its own then. over
 * (NULL: none) runs once where this returns 0: the call is over, or its caller is gone. */
int calls_out_forward(struct calls_out_connection *c, const struct calls_out_message *m,
	struct varlink_call *call, loop_fn over, void *arg);
/* The caller is gone: the call is over, without an answer. */
void calls_out_drop(struct call_out *x);
/* The call's answers are to stop for a while, or to go on. */
void calls_out_flow(struct call_out *x, bool paused);
/* The connection sends no more calls; or it ends. */
void calls_out_shut(struct calls_out_connection *c);
void calls_out_close(struct calls_out_connection *c);

/* Answer or Hangup has come. */
void calls_out_received(struct calls_out *o, const char *method, const json_t *p);
/* All connections end. */
void calls_out_cut(struct calls_out *o, const char *why);
