/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Calls over a link from another agent of the group, at the end that answers them; calls_out.h is
 * the other end. Each connection there is one of a server here, but has no socket
 * (varlink_carried_new()).
 */

#include "agent/sharing/calls_out.h"
#include "common/varlink/server.h"

/* Embedded in what its owner knows of a connection. */
struct call_in {
	struct chain_node node;
	TAILQ_ENTRY(call_in) entry;
	struct calls_in *in; /* NULL: it is gone */
	int64_t number;
	struct varlink_connection *carried;
};

struct calls_in {
	struct calls_way way;
	TAILQ_HEAD(, call_in) connections;
	struct chain by_number; /* the same */
	bool congested;
	bool stepwise;
};

/* stepwise: after each answer the connection waits for a Flow, so that the other side never gets
 * more than it has asked for. */
void calls_in_init(struct calls_in *in, const struct calls_way *way, bool stepwise);
void calls_in_fini(struct calls_in *in);
/* The way has room again. */
void calls_in_ready(struct calls_in *in);

struct call_in *calls_in_find(const struct calls_in *in, int64_t number);
/* A new connection of that server; its user's closed() calls call_in_left(). 0, or as
 * varlink_carried_new(). */
int calls_in_open(struct calls_in *in, int64_t number, struct varlink_server *server, void *user,
	struct call_in *c);
/* Sends Hangup: there is no such connection any more. */
void calls_in_refuse(struct calls_in *in, int64_t number);
/* A Call has come: keeps its message for the next turn of the server. 0 or -ENOMEM. */
int call_in_feed(struct call_in *c, const json_t *call);
/* Handles what has come so far. May end the connection. */
void call_in_receive(struct call_in *c);
/* The server has closed it. */
void call_in_left(struct call_in *c);
/* Ends it, without a Hangup. */
void call_in_close(struct call_in *c);
/* Flow or Hangup has come. */
void calls_in_received(struct calls_in *in, const char *method, const json_t *p);
/* Ends all. */
void calls_in_close(struct calls_in *in);
