/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The store: ordered keys with revisions and watches, as etcd has them, in this process's memory.
 * Every operation is asynchronous: it happens, and is answered by callback, on the next turn of the
 * loop, never inside the call. Operations happen, and are answered, in the order in which they were
 * started; before the answer the watches get the changes of the operation.
 *
 * Keys are byte strings without NUL, 1..STORE_KEY_MAX bytes; values are any bytes. Callbacks may
 * free anything, the store too.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"
#include "common/base/status.h"
#include "common/loop/loop.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	STORE_KEY_MAX = 1280,
	STORE_VALUE_MAX = 1 << 20,
	STORE_SPANS_MAX = 4,
	STORE_HISTORY = 4096, /* newest changes from which a watch can begin; fewer where they take
				 more than a quarter of the store's room */
	STORE_KEY_COST = 160, /* bytes added to the size of each key and its value */
};

struct store;
struct store_op;    /* an operation not yet answered */
struct store_watch; /* an open watch */

struct store_entry {
	const char *key; /* NUL-ended */
	const void *value;
	size_t len;
	int64_t revision; /* of the last write */
};

/* The result of an operation. entries are borrowed during the callback. */
struct store_answer {
	enum status status; /* OK, ALREADY_EXISTS, RESOURCE_EXHAUSTED */
	const char *message;
	int64_t revision;		   /* the store's */
	const struct store_entry *entries; /* RANGE; ALREADY_EXISTS: the key that exists */
	size_t n;
	int64_t deleted; /* DELETE: number of keys */
};
typedef void (*store_answer_fn)(void *arg, const struct store_answer *answer);

/* Reports a change. For a deletion entry->value is NULL, and entry->revision is that of the
 * deletion. gap: the watch missed changes (the store no longer has them) and is over after this
 * call, with entry NULL. All changes of one revision come in one turn. */
typedef void (*store_change_fn)(void *arg, const struct store_entry *entry, bool gap);

struct store_put {
	const char *key;
	const void *value;
	size_t len;
	bool create;	   /* fail when key or other exists */
	const char *other; /* a key that must not exist beside this one: the write deletes it in the
			      same revision, or fails with create; NULL: none */
};

/* The keys from begin ("": the first) up to, not including, end. end NULL: only the key begin; "":
 * up to the last. */
struct store_span {
	const char *begin, *end;
};

/*
 * Each starts an operation: 0 and the handle (for store_cancel(), valid until the callback has
 * returned; ret may be NULL), -ENOMEM, or -EINVAL for a key, value or number outside the limits.
 * The store copies all that a request points to. fn NULL: no answer is wanted.
 */
_must_check_ int store_put(struct store *s, const struct store_put *put, store_answer_fn fn,
	void *arg, struct store_op **ret);
/* Reads the keys of up to STORE_SPANS_MAX spans, which do not overlap, at one revision: span after
 * span, sorted in each. Finding none is no error. */
_must_check_ int store_range(struct store *s, const struct store_span *spans, size_t n,
	store_answer_fn fn, void *arg, struct store_op **ret);
/* Deletes all keys of the spans in one revision. */
_must_check_ int store_delete(struct store *s, const struct store_span *spans, size_t n,
	store_answer_fn fn, void *arg, struct store_op **ret);
/* The callback will not be called; the operation may still happen. NULL is accepted. */
struct store_op *store_cancel(struct store_op *op);

/*
 * Reports every change in the span with a revision above since, in order. since < 0: from now on
 * (operations already started may be reported or not). A caller resumes with the revision of the
 * last change it was given. Calls fn on later turns of the loop only.
 */
_must_check_ int store_watch_new(struct store *s, const struct store_span *span, int64_t since,
	store_change_fn fn, void *arg, struct store_watch **ret);
/* The caller frees its watch, before or after the store. */
struct store_watch *store_watch_free(struct store_watch *w);

/* max_bytes: of all keys and values, plus STORE_KEY_COST each; a write that exceeds it is
 * RESOURCE_EXHAUSTED and changes nothing. */
_must_check_ int store_new(struct loop *loop, size_t max_bytes, struct store **ret);
struct store *store_free(struct store *s); /* open operations end without a callback */
