/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Shared by the files of the barriers (barrier.c: the steps; barrier_names.c: names, and which are
 * forgotten; barrier_text.c: texts of failures), and by no others.
 *
 * A name has at most one open use. It keeps a failed use until every member of it has got the
 * failure. An arrival is a place in a use; a wait is a call that wants an answer. A decided use
 * holds the answer for its waits, which stand in one queue until they are answered.
 */

#include "agent/sync/barrier.h"
#include "agent/sync/slot_set.h"
#include "common/base/hash_chain.h"

#include <sys/queue.h>

struct barrier_wait {
	struct chain_node node; /* by token; the first member */
	TAILQ_ENTRY(barrier_wait) link;
	void *token;
	struct barrier_use *use; /* waits in it; when ready: holds its answer (a reference) */
	size_t place;
	bool ready;
	enum status status; /* its answer when ready without a use */
	const char *text;
	int64_t generation;
};

#define BARRIER_NEVER UINT32_MAX

struct barrier_place {
	uint16_t slot;
	bool arrived;	   /* in a failed use also: has got the failure */
	uint32_t after_ms; /* when it arrived, since the use was opened; BARRIER_NEVER */
	struct barrier_wait *wait;
};

struct barrier_use {
	unsigned refs;
	TAILQ_ENTRY(barrier_use) link; /* in its name's list of failed uses */
	uint64_t opened_ms, deadline_ms;
	int first;	 /* the slot that arrived first */
	bool by_default; /* the first arrival gave no list of members */
	size_t n, n_arrived;
	size_t n_late; /* in a failed use: members that have yet to get the failure */
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
	TAILQ_HEAD(, barrier_use) failed; /* failed uses that some member has not got */
	int64_t uses;
	char text[];
};

TAILQ_HEAD(barrier_names, barrier_name);
TAILQ_HEAD(barrier_waits, barrier_wait);

struct barriers {
	barrier_answer_fn answer;
	slots_name_fn name;
	barrier_over_fn over; /* or NULL */
	void *arg;
	struct chain names, waits;
	struct barrier_names lists[BARRIER_N_LISTS]; /* the longest unused name first */
	struct barrier_waits ready;
	size_t members;	      /* of all open and failed uses */
	uint64_t deadline_ms; /* the next one, if known */
	bool deadline_known;
	bool draining;
	bool stopped;
	enum status stop_status;
	char stop_text[512];
	size_t n_ended;
	char *ended[BARRIER_SLOTS]; /* why slot will not arrive, or NULL; owned, but for constants
				       such as barrier_ended_stopped */
};

/* The reason of a slot stopped by an operator. */
extern char barrier_ended_stopped[];

/* barrier_names.c */

/* Returns borrowed, NULL when there is none. */
struct barrier_name *barrier_name_find(const struct barriers *b, const char *text);
/* Adds a name; where there are too many, forgets an old one. -ENOMEM, -ENOSPC. */
_must_check_ int barrier_name_add(struct barriers *b, const char *text, struct barrier_name **ret);
/* Moves name to the list it belongs to, as the one used last. */
void barrier_name_touch(struct barriers *b, struct barrier_name *name);
/* Frees a name that is not open, with its failures. */
void barrier_name_forget(struct barriers *b, struct barrier_name *name);
/* Notes that slot has got use, a failed use of name, or need not get it. */
void barrier_delivered(
	struct barriers *b, struct barrier_name *name, struct barrier_use *use, int slot);

/* A use without arrivals, owned, with one reference; slots are sorted, without duplicates. -ENOMEM;
 * -ENOSPC: too many members, even after old failures were forgotten. */
_must_check_ int barrier_use_new(
	struct barriers *b, const int *slots, size_t n, struct barrier_use **ret);
void barrier_use_unref(struct barriers *b, struct barrier_use *use);
/* Returns borrowed, NULL when slot is not a member. */
struct barrier_place *barrier_place(struct barrier_use *use, int slot);

/* barrier_text.c: these fill in use->answer before the use is decided. */

/* Lists members that have not arrived as missing. text NULL: the barrier is overdue. */
void barrier_text_missing(
	struct barriers *b, struct barrier_use *use, const char *name, const char *text);
/* Lists the members that have ended (slot -1), or only slot, as missing. Returns the status of the
 * failure, which is that of the first of them. */
enum status barrier_text_ended(
	struct barriers *b, struct barrier_use *use, const char *name, int slot, const char *why);
void barrier_text_stranger(struct barriers *b, struct barrier_use *use, const char *name, int slot);
/* slot gave other members than the first arrival. */
void barrier_text_differs(struct barriers *b, struct barrier_use *use, const char *name, int slot,
	const struct slot_set *members);
