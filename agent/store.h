/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The store: ordered keys with revisions, leases and watches, as etcd has them. Every operation is
 * asynchronous: its answer comes by callback on a later turn of the loop, never from inside the
 * call, and answers to one caller's operations come in the order of these. Implementations:
 * store_memory_new() (one host), and others behind the same operations. Whoever uses it may not
 * assume that an answer comes soon, that it comes at all before the caller itself is done (see
 * store_cancel), or that the store lives in this process.
 *
 * Keys are byte strings without NUL, 1..STORE_KEY_MAX bytes; values are any bytes.
 */

#include "common/cleanup.h"
#include "common/error.h"
#include "common/loop.h"
#include "common/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	STORE_KEY_MAX = 1024,
	STORE_VALUE_MAX = 1 << 20,
	STORE_HISTORY = 4096, /* changes that a watch can begin behind the newest one, at least */
};

struct store;
struct store_op;    /* an operation under way */
struct store_watch; /* an open watch */

struct store_entry {
	const char *key; /* NUL-ended */
	const void *value;
	size_t len;
	int64_t revision;	  /* of its last write */
	int64_t create_revision; /* of the write that made it */
	int64_t lease;		  /* 0: none */
};

/* What an operation came to. entries are borrowed during the callback. */
struct store_answer {
	enum status status; /* ALREADY_EXISTS, NOT_FOUND, RESOURCE_EXHAUSTED, UNAVAILABLE, ... */
	const char *message;
	int64_t revision; /* the store's */
	const struct store_entry *entries; /* GET, RANGE; ALREADY_EXISTS: what is there */
	size_t n;
	int64_t deleted; /* DELETE: how many */
	int64_t lease;	 /* GRANT */
};
typedef void (*store_answer_fn)(void *arg, const struct store_answer *answer);

/* A change: entry->value is NULL for a deletion. gap: the watch has missed changes (it fell behind
 * what the store remembers) and is over after this call; entry is NULL then. */
typedef void (*store_change_fn)(void *arg, const struct store_entry *entry, bool gap);

struct store_put {
	const char *key;
	const void *value;
	size_t len;
	bool create;   /* only where the key is not there */
	int64_t lease; /* goes with it; 0: none */
};

/*
 * Each starts an operation: 0 and the handle (for store_cancel(), valid until the callback has
 * returned; ret may be NULL), -ENOMEM, or -EINVAL for a key or value outside the limits. What a
 * request points to is copied.
 */
_must_check_ int store_put(struct store *s, const struct store_put *put, store_answer_fn fn,
	void *arg, struct store_op **ret);
_must_check_ int store_get(
	struct store *s, const char *key, store_answer_fn fn, void *arg, struct store_op **ret);
/* All keys from begin on and before end (NULL: to the last), sorted; at most limit (0: all). */
_must_check_ int store_range(struct store *s, const char *begin, const char *end, size_t limit,
	store_answer_fn fn, void *arg, struct store_op **ret);
/* end NULL: the one key. */
_must_check_ int store_delete(struct store *s, const char *begin, const char *end,
	store_answer_fn fn, void *arg, struct store_op **ret);
/* A lease that ends ttl_ms after its last keep-alive; its keys are deleted then. */
_must_check_ int store_grant(
	struct store *s, uint64_t ttl_ms, store_answer_fn fn, void *arg, struct store_op **ret);
_must_check_ int store_keep_alive(
	struct store *s, int64_t lease, store_answer_fn fn, void *arg, struct store_op **ret);
_must_check_ int store_revoke(
	struct store *s, int64_t lease, store_answer_fn fn, void *arg, struct store_op **ret);

/* The callback will not be called. What the operation does may still happen. NULL is accepted. */
struct store_op *store_cancel(struct store_op *op);

/*
 * Tells of every change in [begin, end) (end NULL: the one key) with a revision above since, in
 * order; since < 0: from now on. Resumable: begin again with the revision of the last change that
 * was told. Calls fn on later turns of the loop only.
 */
_must_check_ int store_watch_new(struct store *s, const char *begin, const char *end, int64_t since,
	store_change_fn fn, void *arg, struct store_watch **ret);
struct store_watch *store_watch_free(struct store_watch *w);

/* The implementation in this process's memory. max_bytes: of keys and values together. */
_must_check_ int store_memory_new(struct loop *loop, size_t max_bytes, struct store **ret);
struct store *store_free(struct store *s); /* open operations end without a callback */
DEFINE_CLEANUP(struct store *, store_free)
