/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Shared by the files of the store: store.c has its life, requests and turns; store_run.c the
 * operations; store_watch.c the history and the watches; store_map.c the keys.
 */

#include "agent/store/store.h"
#include "agent/store/store_map.h"

#include <sys/queue.h>

struct change {
	struct record *record; /* for a deletion: the deleted record */
	int64_t revision;
	bool deleted;
};

/* The newest changes, numbered from 0: a circular array of STORE_HISTORY. */
struct history {
	struct change *ring;
	uint64_t first, next; /* [first, next) are kept */
	size_t bytes, max_bytes;
	int64_t forgotten; /* the newest revision with a change that was dropped */
};

struct store_watch {
	struct store *store; /* NULL: it was freed */
	TAILQ_ENTRY(store_watch) link;
	char *begin, *end;  /* end NULL: one key; "": to the last */
	uint64_t cursor;    /* number of the next change to report */
	store_change_fn fn; /* NULL: the watch is over, or was freed by a callback */
	void *arg;
	bool gap, freed;
};

enum store_kind { STORE_PUT, STORE_RANGE, STORE_DELETE };

struct store_op {
	STAILQ_ENTRY(store_op) link;
	enum store_kind kind;
	store_answer_fn fn; /* NULL: no answer is wanted */
	void *arg;
	struct record *record; /* PUT; NULL when the map has it */
	const char *other;
	bool create;
	size_t n;
	struct store_span spans[STORE_SPANS_MAX];
	char text[]; /* the keys */
};

STAILQ_HEAD(store_ops, store_op);

struct store {
	struct loop *loop;
	struct map map;
	struct history history;
	int64_t revision;
	size_t max_bytes;

	struct store_ops queue; /* operations for the next turn */
	struct store_ops now;	/* operations of this turn */
	TAILQ_HEAD(, store_watch) watches;
	bool behind;	/* a watch has changes to report */
	bool reporting; /* store_report() is walking the list */
	int busy;	/* callbacks that run now */
	bool dead;	/* freed by one of these */

	struct store_entry *entries; /* for answers to range; reused */
	size_t room;
};

/* store.c. Runs the queued operations, and reports changes, on the next turn. 0 or -ENOMEM. */
_must_check_ int store_post(struct store *s);
/* Surround code that calls callbacks: after store_free() by a callback, store_leave() frees it. */
void store_enter(struct store *s);
void store_leave(struct store *s);
struct store_entry store_entry(const struct record *r);
bool store_span_fits(const struct store_span *span);

/* store_run.c: does one operation, and answers. */
void store_run(struct store *s, struct store_op *op);

/* store_watch.c */
int history_init(struct history *h, size_t max_bytes);
void history_fini(struct history *h);
/* Adds a change; takes record. Reports older changes first when the history is full. */
void store_changed(struct store *s, struct record *record, bool deleted);
/* Reports all changes to all watches. */
void store_report(struct store *s);
void store_watches_orphan(struct store *s);
