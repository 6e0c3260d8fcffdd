/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the files of the barriers share (barrier.c: the steps; barrier_names.c: the names and what
 * is forgotten; barrier_text.c: the texts of failures). Nobody else includes it.
 *
 * A name has at most one open use and keeps its failed uses while somebody has not been told of
 * them. An arrival is a place in a use; a wait is a call that wants an answer. A decided use is
 * itself the answer of its waits, which stand in one queue until they are told.
 */

#include "agent/barrier.h"
#include "agent/chain.h"

#include <sys/queue.h>

struct barrier_wait {
	struct chain_node node; /* by token; the first member */
	TAILQ_ENTRY(barrier_wait) link;
	void *token;
	struct barrier_use
		*use; /* at a place of it; when ready: whose answer it gets (a reference) */
	size_t place;
	bool ready;
	enum status status; /* when ready without a use */
	const char *text;
	int64_t generation;
};

struct barrier_place {
	int slot;
	bool arrived; /* in a failed use: or has been told of it */
	struct barrier_wait *wait;
};

struct barrier_use {
	unsigned refs;
	TAILQ_ENTRY(barrier_use) link; /* of its name's failed ones */
	uint64_t deadline_ms;
	int first;    /* the slot that opened it */
	bool unnamed; /* ... without naming the members */
	size_t n, n_arrived;
	size_t n_late;
	struct barrier_answer answer; /* missing has room for n + 1 */
	int *missing;
	struct barrier_place places[]; /* sorted by slot */
};

enum barrier_list { BARRIER_OPEN, BARRIER_FAILED, BARRIER_IDLE, BARRIER_N_LISTS };

struct barrier_name {
	struct chain_node node; /* the first member */
	TAILQ_ENTRY(barrier_name) link;
	enum barrier_list list;
	struct barrier_use *open;
	TAILQ_HEAD(, barrier_use) failed; /* each with somebody who is late */
	int64_t uses;
	char text[];
};

TAILQ_HEAD(barrier_names, barrier_name);
TAILQ_HEAD(barrier_waits, barrier_wait);

struct barriers {
	barrier_answer_fn answer;
	barrier_name_fn name;
	void *arg;
	struct chain names, waits;
	struct barrier_names lists[BARRIER_N_LISTS]; /* the longest unused first */
	struct barrier_waits ready;
	size_t members;	      /* of all uses there are */
	uint64_t deadline_ms; /* the next one, when it is known */
	bool deadline_known;
	bool draining;
	bool stopped;
	enum status stop_status;
	char stop_text[512];
	size_t n_ended;
	char *ended[BARRIER_SLOTS]; /* why, of those who can arrive no more; some are constants: */
};

/* An operator stopped it. */
extern char barrier_ended_stopped[];

/* barrier_names.c */

/* NULL: there is none. Returns borrowed. */
struct barrier_name *barrier_name_find(const struct barriers *b, const char *text);
/* A new name, in the place of a forgotten one where there are too many. -ENOMEM, -ENOSPC. */
_must_check_ int barrier_name_add(struct barriers *b, const char *text, struct barrier_name **ret);
/* Puts name on the list where it belongs, as the one used last. */
void barrier_name_touch(struct barriers *b, struct barrier_name *name);
/* Forgets it and its failures; it must not be open. */
void barrier_name_forget(struct barriers *b, struct barrier_name *name);
/* slot has been told of use, a failure of name, or need not be. */
void barrier_told(struct barriers *b, struct barrier_name *name, struct barrier_use *use, int slot);

/* Owned, with one reference, nobody arrived: slots are sorted and each there once. -ENOMEM,
 * -ENOSPC: too many members, also after failures were forgotten. */
_must_check_ int barrier_use_new(
	struct barriers *b, const int *slots, size_t n, struct barrier_use **ret);
void barrier_use_unref(struct barriers *b, struct barrier_use *use);
/* NULL: slot is no member. Returns borrowed. */
struct barrier_place *barrier_place(struct barrier_use *use, int slot);

/* barrier_text.c: they fill in use->answer, before it is decided. */

/* Those who have not come are missing. text NULL: it is overdue. */
void barrier_say_missing(
	struct barriers *b, struct barrier_use *use, const char *name, const char *text);
/* The members that have ended, or only that slot (-1: all) are missing. Returns what the failure is
 * called, which is that of the first of them. */
enum status barrier_say_ended(
	struct barriers *b, struct barrier_use *use, const char *name, int slot, const char *why);
void barrier_say_stranger(struct barriers *b, struct barrier_use *use, const char *name, int slot);
/* slot came with other members. */
void barrier_say_differs(struct barriers *b, struct barrier_use *use, const char *name, int slot,
	const int *slots, size_t n);
