/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The store: ordered keys with revisions, leases and watches, as etcd has them. Every operation is
 * asynchronous: its answer comes by callback on a later turn of the loop, never from inside the
 * call, and one caller's operations happen, and are answered, in the order in which they were
 * started. Implementations: store_memory_new() (one host), and others behind the same operations.
 * Whoever uses it may not assume that an answer comes soon, that it comes at all before the caller
 * itself is done (see store_cancel), that an operation answered UNAVAILABLE has not happened, or
 * that the store lives in this process.
 *
 * Keys are byte strings without NUL, 1..STORE_KEY_MAX bytes; values are any bytes. Callbacks may
 * free anything, the store too.
 */

#include "common/cleanup.h"
#include "common/error.h"
#include "common/loop.h"
#include "common/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	STORE_KEY_MAX = 1280,
	STORE_VALUE_MAX = 1 << 20,
	STORE_SPANS_MAX = 4,
	STORE_HISTORY = 4096, /* changes that a watch can begin behind the newest one; fewer where
				 these take more than a quarter of the store's room */
	STORE_KEY_COST = 160, /* bytes that a key counts for besides its own and its value's */
};

struct store;
struct store_op;    /* an operation under way */
struct store_watch; /* an open watch */

struct store_entry {
	const char *key; /* NUL-ended */
	const void *value;
	size_t len;
	int64_t revision;	 /* of its last write */
	int64_t create_revision; /* of the write that made it */
	int64_t lease;		 /* 0: none */
};

/* What an operation came to. entries are borrowed during the callback. */
struct store_answer {
	enum status status; /* ALREADY_EXISTS, NOT_FOUND, RESOURCE_EXHAUSTED, UNAVAILABLE, ... */
	const char *message;
	int64_t revision;		   /* the store's; 0 where it is not known (UNAVAILABLE) */
	const struct store_entry *entries; /* GET, RANGE; ALREADY_EXISTS: what is there */
	size_t n;
	int64_t deleted; /* DELETE: how many */
	int64_t lease;	 /* GRANT */
};
typedef void (*store_answer_fn)(void *arg, const struct store_answer *answer);

/* A change: entry->value is NULL for a deletion, whose revision is entry->revision. gap: the watch
 * has missed changes (it fell behind what the store remembers) and is over after this call; entry
 * is NULL then. All changes of one revision are told in one turn. */
typedef void (*store_change_fn)(void *arg, const struct store_entry *entry, bool gap);

struct store_put {
	const char *key;
	const void *value;
	size_t len;
	bool create;	   /* only where neither key nor other is there */
	const char *other; /* a key that excludes this one: without create it is deleted with the
			      write, in one revision; NULL: none */
	int64_t lease;	   /* goes with it; 0: none */
};

/* The keys from begin ("": the first) on and before end. end NULL: the one key begin; "": to the
 * last. */
struct store_span {
	const char *begin, *end;
};

/*
 * Each starts an operation: 0 and the handle (for store_cancel(), valid until the callback has
 * returned; ret may be NULL), -ENOMEM, or -EINVAL for a key, value or number outside the limits.
 * What a request points to is copied.
 */
_must_check_ int store_put(struct store *s, const struct store_put *put, store_answer_fn fn,
	void *arg, struct store_op **ret);
_must_check_ int store_get(
	struct store *s, const char *key, store_answer_fn fn, void *arg, struct store_op **ret);
/* The keys of up to STORE_SPANS_MAX spans, which do not overlap, read at one revision: span after
 * span, sorted in each; at most limit (0: all). None is no error. */
_must_check_ int store_range(struct store *s, const struct store_span *spans, size_t n,
	size_t limit, store_answer_fn fn, void *arg, struct store_op **ret);
/* Deletes them in one revision. */
_must_check_ int store_delete(struct store *s, const struct store_span *spans, size_t n,
	store_answer_fn fn, void *arg, struct store_op **ret);
/* A lease that ends ttl_ms (1 or more) after its last keep-alive; its keys are deleted then. */
_must_check_ int store_grant(
	struct store *s, uint64_t ttl_ms, store_answer_fn fn, void *arg, struct store_op **ret);
_must_check_ int store_keep_alive(
	struct store *s, int64_t lease, store_answer_fn fn, void *arg, struct store_op **ret);
_must_check_ int store_revoke(
	struct store *s, int64_t lease, store_answer_fn fn, void *arg, struct store_op **ret);

/* The callback will not be called. What the operation does may still happen. NULL is accepted. */
struct store_op *store_cancel(struct store_op *op);

/*
 * Tells of every change in the span with a revision above since, in order; since < 0: from now on
 * (an operation already under way may be told or not). Resumable: begin again with the revision of
 * the last change that was told. Calls fn on later turns of the loop only.
 */
_must_check_ int store_watch_new(struct store *s, const struct store_span *span, int64_t since,
	store_change_fn fn, void *arg, struct store_watch **ret);
/* A watch is freed by who made it, before or after its store. */
struct store_watch *store_watch_free(struct store_watch *w);

/* The implementation in this process's memory. max_bytes: of keys and values together, with
 * STORE_KEY_COST for each; a write beyond it is RESOURCE_EXHAUSTED and changes nothing. */
_must_check_ int store_memory_new(struct loop *loop, size_t max_bytes, struct store **ret);
struct store *store_free(struct store *s); /* open operations end without a callback */
DEFINE_CLEANUP(struct store *, store_free)
