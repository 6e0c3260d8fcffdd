/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Shared by the files of the store in memory; begin with memory.c. */

#include "agent/store/memory_map.h"
#include "agent/store/private.h"

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

struct memory_watch {
	struct store_watch base;
	struct memory *m; /* NULL: its store was freed */
	TAILQ_ENTRY(memory_watch) link;
	char *begin, *end;  /* end NULL: one key; "": to the last */
	uint64_t cursor;    /* number of the next change to report */
	store_change_fn fn; /* NULL: the watch is over, or was freed by a callback */
	void *arg;
	bool gap, freed;
};

struct lease {
	LIST_ENTRY(lease) link;
	LIST_HEAD(, node) nodes;
	int64_t id;
	uint64_t ttl_ms, ends_ms;
};

struct memory_op {
	struct store_op base;
	STAILQ_ENTRY(memory_op) link;
	enum store_kind kind;
	store_answer_fn fn; /* NULL: cancelled */
	void *arg;
	struct record *record; /* PUT; NULL when the map has it */
	const char *other;
	bool create;
	int64_t lease;
	uint64_t ttl_ms;
	size_t limit, n;
	struct store_span spans[STORE_SPANS_MAX];
	char text[]; /* the keys */
};

STAILQ_HEAD(memory_ops, memory_op);

struct memory {
	struct store base;
	struct loop *loop;
	struct map map;
	struct history history;
	int64_t revision;
	size_t max_bytes;

	struct memory_ops queue; /* operations for the next turn */
	struct memory_ops now;	 /* operations of this turn */
	TAILQ_HEAD(, memory_watch) watches;
	bool behind;	/* a watch has changes to report */
	bool reporting; /* memory_report() is walking the list */
	int busy;	/* callbacks that run now */
	bool dead;	/* freed by one of these */

	struct store_entry *entries; /* for answers to range; reused */
	size_t room;

	LIST_HEAD(, lease) leases;
	int64_t last_lease;
	struct loop_timer *timer; /* for the end of the next lease, and where posting fails */
	uint64_t timer_ms;	  /* when it fires */
	uint64_t (*now_ms)(void);
};

/* memory.c. Makes the store work on the next turn. */
void memory_post(struct memory *m);
/* Surround code that calls callbacks: after store_free() by a callback, memory_leave() frees. */
void memory_enter(struct memory *m);
void memory_leave(struct memory *m);
struct store_entry memory_entry(const struct record *r);

/* memory_run.c: does one operation, and answers. */
void memory_run(struct memory *m, struct memory_op *op);
/* Removes the key at place, as part of the newest revision. */
void memory_erase(struct memory *m, struct map_place *place);

/* memory_watch.c */
int history_init(struct history *h, size_t max_bytes);
void history_fini(struct history *h);
/* Adds a change; takes record. Reports older changes first when the history is full. */
void memory_changed(struct memory *m, struct record *record, bool deleted);
/* Reports all changes to all watches. */
void memory_report(struct memory *m);
int memory_watch_new(struct store *s, const struct store_span *span, int64_t since,
	store_change_fn fn, void *arg, struct store_watch **ret);
void memory_watch_free(struct store_watch *base);
void memory_watches_orphan(struct memory *m);

/* memory_lease.c. NULL: no lease has this number. */
struct lease *memory_lease(struct memory *m, int64_t id);
/* NULL without memory. */
struct lease *memory_lease_new(struct memory *m, uint64_t ttl_ms);
void memory_lease_renew(struct memory *m, struct lease *l);
/* Ends the lease, and deletes its keys in one revision. Returns how many. */
int64_t memory_lease_end(struct memory *m, struct lease *l);
void memory_leases_expire(struct memory *m);
void memory_leases_free(struct memory *m);
/* Ties the node to lease l (NULL: to none). */
void memory_node_lease(struct node *n, struct lease *l);
