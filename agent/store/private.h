/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The interface of an implementation of the store: its operations, on objects that begin with these
 * structs. store.c has checked every request before it gets here.
 */

#include "agent/store/store.h"

enum store_kind {
	STORE_PUT,
	STORE_GET,
	STORE_RANGE,
	STORE_DELETE,
	STORE_GRANT,
	STORE_KEEP_ALIVE,
	STORE_REVOKE,
};

/* Borrowed during the call. */
struct store_request {
	enum store_kind kind;
	const struct store_put *put;	/* PUT */
	const struct store_span *spans; /* GET (one), RANGE, DELETE */
	size_t n;
	size_t limit;	 /* RANGE */
	uint64_t ttl_ms; /* GRANT */
	int64_t lease;	 /* KEEP_ALIVE, REVOKE */
	store_answer_fn fn;
	void *arg;
};

struct store_ops {
	/* Returns 0 and the operation, or -ENOMEM. */
	int (*start)(struct store *s, const struct store_request *request, struct store_op **ret);
	void (*cancel)(struct store_op *op);
	int (*watch_new)(struct store *s, const struct store_span *span, int64_t since,
		store_change_fn fn, void *arg, struct store_watch **ret);
	void (*watch_free)(struct store_watch *w);
	void (*free)(struct store *s);
};

struct store {
	const struct store_ops *ops;
};

struct store_op {
	const struct store_ops *ops;
};

struct store_watch {
	const struct store_ops *ops;
};

/* For tests: the clock for the leases of a store in memory. */
void store_memory_set_clock(struct store *s, uint64_t (*now_ms)(void));
