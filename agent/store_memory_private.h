/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files of the store in memory share; see store_memory.c. */

#include "agent/store_memory_map.h"
#include "agent/store_private.h"

struct change {
	struct record *record; /* of a deletion: what was there */
	int64_t revision;
	bool deleted;
};

/* The newest changes, numbered from 0 on: a ring of STORE_HISTORY. */
struct history {
	struct change *ring;
	uint64_t first, next; /* [first, next) are remembered */
	size_t bytes, max_bytes;
	int64_t forgotten; /* the newest revision of which something is no longer remembered */
};

struct memory_watch {
	struct store_watch base;
	struct memory *m; /* NULL: its store is gone */
	TAILQ_ENTRY(memory_watch) link;
	char *begin, *end;  /* end NULL: one key; "": to the last */
	uint64_t cursor;    /* the next change to be looked at */
	store_change_fn fn; /* NULL: it is over, or freed while changes are told */
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
	store_answer_fn fn; /* NULL: taken back */
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

	struct memory_ops queue; /* asked since the last turn */
	struct memory_ops now;	 /* those of this turn */
	TAILQ_HEAD(, memory_watch) watches;
	bool behind;  /* there is a watch that has not looked at everything */
	bool telling; /* the list of watches is being walked */
	int busy;     /* callbacks are under way */
	bool dead;    /* freed by one of them */

	struct store_entry *entries; /* of ranges: reused */
	size_t room;

	LIST_HEAD(, lease) leases;
	int64_t last_lease;
	struct loop_timer *timer; /* the end of the next lease; also where posting fails */
	uint64_t timer_ms;	  /* when it is due */
	uint64_t (*now_ms)(void);
};

/* store_memory.c. A turn of the store is to come. */
void memory_post(struct memory *m);
/* Around what calls callbacks: leave frees a store that one of them freed. */
void memory_enter(struct memory *m);
void memory_leave(struct memory *m);
struct store_entry memory_entry(const struct record *r);

/* store_memory_run.c: does it, and answers. */
void memory_run(struct memory *m, struct memory_op *op);
/* Removes the key at place, as part of the newest revision. */
void memory_erase(struct memory *m, struct map_place *place);

/* store_memory_watch.c */
int history_init(struct history *h, size_t max_bytes);
void history_fini(struct history *h);
/* Remembers a change; takes record. Tells first where there is no room for it. */
void memory_changed(struct memory *m, struct record *record, bool deleted);
/* Brings all watches up to the newest change. */
void memory_tell(struct memory *m);
int memory_watch_new(struct store *s, const struct store_span *span, int64_t since,
	store_change_fn fn, void *arg, struct store_watch **ret);
void memory_watch_free(struct store_watch *base);
void memory_watches_orphan(struct memory *m);

/* store_memory_lease.c. NULL: none of this number. */
struct lease *memory_lease(struct memory *m, int64_t id);
/* NULL without memory. */
struct lease *memory_lease_new(struct memory *m, uint64_t ttl_ms);
void memory_lease_renew(struct memory *m, struct lease *l);
/* Deletes its keys in one revision; returns how many. */
int64_t memory_lease_end(struct memory *m, struct lease *l);
void memory_leases_expire(struct memory *m);
void memory_leases_free(struct memory *m);
/* The node's lease is l (NULL: none) from now on. */
void memory_node_lease(struct node *n, struct lease *l);
