/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Shared by the files of the members (members.c: states and errors; members_waits.c: the waits;
 * members_leave.c: the shutdown barrier), and by no others.
 *
 * A wait is on the list of what it waits for; once decided, with its answer, on the list of waits
 * to be answered.
 */

#include "agent/sync/members.h"
#include "common/base/hash_chain.h"

#include <sys/queue.h>

/* An error with its message, shared by reference. */
struct members_shared_error {
	unsigned refs;
	struct members_error error;
};

/* An answer for several waits, other than an error. */
struct members_reply {
	unsigned refs;
	char message[512];
	char *text; /* of the callback; owned */
	size_t n;
	int slots[];
};

TAILQ_HEAD(members_waits, members_wait);

struct members_wait {
	struct chain_node node; /* by token; the first member */
	TAILQ_ENTRY(members_wait) link;
	struct members_waits *home; /* the list it is on */
	void *token;
	int slot; /* the caller; -1: waits for the error */
	uint64_t deadline_ms;
	struct members_query *query; /* ALIVE, until decided */
	enum status status;	     /* the answer, once decided */
	const char *text;
	struct members_shared_error *shared; /* a reference */
	struct members_reply *reply;	     /* a reference */
};

struct members_caller {
	int slot;
	unsigned calls; /* of this member that wait */
};

/* All calls of ALIVE with the same set. */
struct members_query {
	struct chain_node node; /* by set; the first member */
	TAILQ_ENTRY(members_query) link;
	struct members_waits waits;
	struct members_reply *reply; /* has room for the whole set; a reference */
	size_t n;
	size_t missing;			 /* all before this one have called, or cannot */
	struct members_caller callers[]; /* sorted */
};

struct member {
	bool known, alive, recoverable, observer, left;
	bool counts;			  /* its own error counts for the group */
	struct members_shared_error *own; /* a reference */
};

struct members {
	struct members_options opt;
	struct member *slots;
	size_t n_slots;
	struct members_shared_error *error; /* the group's error, a reference */
	bool error_announced;		    /* the error callback has got it */
	struct members_shared_error spare;  /* for a bad end when there is no memory */
	char spare_text[256];
	struct members_reply *leave_failed; /* where that is the error; a reference */
	bool stopped;
	enum status stop_status;
	char stop_text[512];
	struct chain tokens, sets;
	TAILQ_HEAD(, members_query) queries;
	struct members_query *everyone; /* of callers without a list; or NULL */
	struct members_waits error_waits, leave_waits, ready;
	uint64_t deadline_ms; /* the next one, if known */
	bool deadline_known;
	bool draining;
};

/* members.c */

struct members_shared_error *members_error_ref(struct members_shared_error *shared);
struct members_shared_error *members_error_unref(
	struct members *m, struct members_shared_error *shared); /* NULL */
/* Returns borrowed, NULL when slot has not started. */
struct member *members_get(const struct members *m, int slot);
/* Makes shared the group's error, if there is none. */
void members_set_error(struct members *m, struct members_shared_error *shared);
/* Owned; NULL without memory. Copies at most MEMBERS_ERROR_MAX bytes of message. */
struct members_shared_error *members_error_new(
	enum status code, const char *message, int slot, bool reported, int64_t time_us);

/* members_waits.c */

/* Calls back with the group's error and the decided waits, unless an outer step does. */
void members_drain(struct members *m);
/* The group has got an error: decides the waits for it. */
void members_waits_error(struct members *m);
/* A worker has started: it has to call, too. */
void members_waits_started(struct members *m);
/* slot has ended or left: decides what depends on that. */
void members_waits_changed(struct members *m);
void members_waits_ended(struct members *m, int slot);
/* Gives all waits this answer. text must outlive it. */
void members_waits_end(struct members *m, enum status status, const char *text);
/* Frees all waits without an answer. */
void members_waits_free(struct members *m);
/* With room for n slots and one reference; NULL without memory. */
struct members_reply *members_reply_new(size_t n);
void members_reply_unref(struct members_reply *reply);
/* A wait that is on no list yet; NULL without memory. */
struct members_wait *members_wait_new(
	struct members *m, int slot, uint64_t deadline_ms, void *token);
/* Puts w on the list home. */
void members_wait_at(struct members *m, struct members_wait *w, struct members_waits *home);
/* Gives w its answer; shared and reply are borrowed, text must outlive it. */
void members_wait_ready(struct members *m, struct members_wait *w, enum status status,
	const char *text, struct members_shared_error *shared, struct members_reply *reply);

/* members_leave.c */

/* Answers the leaves once no member is waited for, or the group has an error. */
void members_leave_check(struct members *m);
/* Fails the overdue leaves, and makes that an error of the group. */
void members_leave_overdue(struct members *m, int64_t now_us);
/* Gives all leaves this answer; text must outlive it, reply is borrowed. */
void members_leave_all(
	struct members *m, enum status status, const char *text, struct members_reply *reply);
/* Forgets that a leave failed. */
void members_leave_clear(struct members *m);
