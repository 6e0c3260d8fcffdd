/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * HTTP requests to etcd, by libcurl, which no other file of this room knows. Owns the connections.
 * Follows no redirection, uses no proxy, resolves names beside the loop. Never sends a request
 * again that is to be sent once and may have reached the server.
 */

#include "common/base/error.h"
#include "common/etcd/failure.h"
#include "common/loop/loop.h"

struct etcd_wire;
struct etcd_exchange;

/* Files of PEM, or NULL; borrowed for the life of the wire. */
struct etcd_wire_options {
	const char *ca, *cert, *key;
};

/* 0, -ENOMEM, or -EOPNOTSUPP with err without libcurl. */
_must_check_ int etcd_wire_new(struct loop *loop, const struct etcd_wire_options *o,
	struct etcd_wire **ret, struct error *err);
/* All exchanges must have been freed. */
struct etcd_wire *etcd_wire_free(struct etcd_wire *w);

struct etcd_wire_request {
	const char *url;
	const char *body; /* POST; borrowed until the exchange is freed; NULL: GET */
	size_t len;
	const char *token; /* NULL: none */
	bool once;	   /* not sent again where it may have reached the server */
	bool has_leader;   /* a member without a leader is to refuse it */
	bool known;	   /* etcd has answered there before */
	int64_t limit_ms;  /* for the whole exchange; 0: none */
	int64_t connect_ms;
};

struct etcd_wire_events {
	/* The exchange is over: failure is NULL, or why there is no whole answer. May free the
	 * exchange and the wire. */
	void (*done)(void *arg, const struct etcd_failure *failure);
	/* More of an answer with HTTP status 200 has come. NULL for answers that end by themselves.
	 * May free the exchange and the wire. */
	void (*more)(void *arg);
};

_must_check_ int etcd_exchange_new(struct etcd_wire *w, const struct etcd_wire_request *q,
	const struct etcd_wire_events *events, void *arg, struct etcd_exchange **ret);
struct etcd_exchange *etcd_exchange_free(struct etcd_exchange *x);

/* Whether the server may have got the request. ret_ms (may be NULL): loop_now_ms() before it was
 * sent. */
bool etcd_exchange_sent(const struct etcd_exchange *x, uint64_t *ret_ms);
/* 0: no status has come. */
int etcd_exchange_status(const struct etcd_exchange *x);
/* The body as far as it has come, borrowed until the next turn. */
const char *etcd_exchange_body(const struct etcd_exchange *x, size_t *ret_len);
/* Forgets its first n bytes. */
void etcd_exchange_consume(struct etcd_exchange *x, size_t n);
