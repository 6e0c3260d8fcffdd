/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Shared by the files of this room that make the client; no other file includes it. */

#include "common/etcd/codec.h"
#include "common/etcd/failure.h"
#include "common/etcd/wire.h"
#include "common/text/endpoint.h"

#include <sys/queue.h>

struct etcd_endpoint {
	char name[ENDPOINT_TEXT_MAX]; /* "e1:2379" */
	bool tls;
	bool known; /* an etcd has answered there */
};

TAILQ_HEAD(etcd_calls, etcd_call);
TAILQ_HEAD(etcd_watches, etcd_watch);

struct etcd {
	struct loop *loop;
	struct etcd_wire *wire;
	struct etcd_endpoint endpoints[ETCD_ENDPOINTS_MAX];
	size_t n, at; /* endpoints[at] is the one in use */
	char *ca, *cert, *key;
	char *user; /* NULL: none */
	struct json_writer login;
	char *token;			 /* NULL: none yet */
	unsigned token_serial;		 /* counts tokens */
	bool no_users;			 /* etcd has said that it has none */
	uint64_t cluster;		 /* of the last answer; 0: none yet */
	int64_t took_ms;		 /* etcd_took_ms() */
	struct etcd_calls calls, writes; /* of the writes the first is under way */
	struct etcd_watches watches;
};

/* The endpoint does not serve: if it is the one in use, later requests use the next one, and
 * watches move there. */
void etcd_leave(struct etcd *e, size_t endpoint);
/* Etcd does not accept the token with this serial: forgets it, unless a newer one has come. */
void etcd_forget_token(struct etcd *e, unsigned serial);

/* --- request.c: a question to the endpoint in use, with the user's token --- */

struct etcd_request;

struct etcd_question {
	const char *path; /* "/v3/kv/txn" */
	const char *body; /* borrowed until the request is freed */
	size_t len;
	bool once, has_leader;
	int64_t limit_ms, connect_ms; /* 0: none */
	struct etcd_wire_events events;
	void *arg;
};

_must_check_ int etcd_request_new(
	struct etcd *e, const struct etcd_question *q, struct etcd_request **ret);
struct etcd_request *etcd_request_free(struct etcd_request *r);
/* As etcd_exchange_sent(), _body() and _consume() of wire.h, for the question itself. */
bool etcd_request_sent(const struct etcd_request *r, uint64_t *ret_ms);
const char *etcd_request_body(const struct etcd_request *r, size_t *ret_len);
void etcd_request_consume(struct etcd_request *r, size_t n);
/* The index of its endpoint, and the serial of its token. */
size_t etcd_request_endpoint(const struct etcd_request *r);
unsigned etcd_request_token(const struct etcd_request *r);

/* --- call.c, watch.c --- */

/* Ends all calls without a callback. */
void etcd_calls_fini(struct etcd *e);
/* Ends all watches; their owners free them. */
void etcd_watches_fini(struct etcd *e);
/* Opens the watches at this endpoint again, at the one in use. */
void etcd_watches_leave(struct etcd *e, size_t endpoint);
