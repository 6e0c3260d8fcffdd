/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the files of the members share (members.c: who is what, and the errors; members_waits.c: who
 * waits for what; members_leave.c: the shutdown barrier). Nobody else includes it.
 *
 * A wait is on the list of what it waits for, and when that is decided on the list of those who are
 * to be told, with what it is told.
 */

#include "agent/chain.h"
#include "agent/members.h"

#include <sys/queue.h>

/* An error, shared by all who hold it; its message is part of it. */
struct members_box {
	unsigned refs;
	struct members_error error;
};

/* What several are told, other than an error. */
struct members_outcome {
	unsigned refs;
	char message[512];
	size_t n;
	int slots[];
};

enum members_kind { MEMBERS_WAIT_ERROR, MEMBERS_WAIT_ALIVE, MEMBERS_WAIT_LEAVE };

TAILQ_HEAD(members_waits, members_wait);

struct members_wait {
	struct chain_node node; /* by token; the first member */
	TAILQ_ENTRY(members_wait) link;
	struct members_waits *home; /* the list that it is on */
	void *token;
	enum members_kind kind;
	int slot; /* who asks: ALIVE, LEAVE */
	uint64_t deadline_ms;
	struct members_question *question; /* ALIVE, until decided */
	enum status status;		   /* when decided */
	const char *text;
	struct members_box *box;	 /* a reference */
	struct members_outcome *outcome; /* a reference */
};

struct members_place {
	int slot;
	unsigned asked; /* how many waits */
};

/* All who ask for the living of one set. */
struct members_question {
	struct chain_node node; /* by set; the first member */
	TAILQ_ENTRY(members_question) link;
	struct members_waits waits;
	struct members_outcome *outcome; /* has room for all; owned */
	size_t n;
	struct members_place places[]; /* sorted */
};

struct member {
	bool known, alive, recoverable, observer, left;
	bool counts;		 /* its own error is one of the group */
	struct members_box *own; /* a reference */
};

struct members {
	struct members_options opt;
	struct member *slots;
	size_t n_slots;
	struct members_box *error; /* the group's, a reference */
	bool error_told;
	struct members_box spare; /* for want of memory */
	char spare_text[256];
	struct members_outcome *leave_failed; /* the group's error is that; a reference */
	bool stopped;
	enum status stop_status;
	char stop_text[512];
	struct chain tokens, sets;
	TAILQ_HEAD(, members_question) questions;
	struct members_waits error_waits, leave_waits, ready;
	uint64_t deadline_ms; /* the next one, when it is known */
	bool deadline_known;
	bool draining;
};

/* members.c */

struct members_box *members_box_ref(struct members_box *box);
struct members_box *members_box_unref(struct members *m, struct members_box *box); /* NULL */
/* NULL: slot has not started. Returns borrowed. */
struct member *members_get(const struct members *m, int slot);
/* Makes it the group's error, if it is the first. */
void members_set_error(struct members *m, struct members_box *box);
/* Owned; NULL without memory. len bytes of message are taken. */
struct members_box *members_box_new(
	enum status code, const char *message, int slot, bool reported, int64_t time_us);

/* members_waits.c */

/* Tells the group's error and all who are decided, unless an outer step does. */
void members_drain(struct members *m);
/* The group has an error now. */
void members_waits_error(struct members *m);
/* slot has started, ended (its waits are in vain), or left. */
void members_waits_changed(struct members *m);
void members_waits_ended(struct members *m, int slot);
/* All get that. text must stay. */
void members_waits_end(struct members *m, enum status status, const char *text);
/* Without an answer. */
void members_waits_free(struct members *m);
/* Room for n slots, one reference; NULL without memory. */
struct members_outcome *members_outcome_new(size_t n);
void members_outcome_unref(struct members_outcome *o);
/* A wait that is nowhere yet; NULL without memory. */
struct members_wait *members_wait_new(
	struct members *m, enum members_kind kind, int slot, uint64_t deadline_ms, void *token);
/* w waits there. */
void members_wait_at(struct members *m, struct members_wait *w, struct members_waits *home);
/* w gets that; box and outcome are borrowed, text must stay. */
void members_wait_ready(struct members *m, struct members_wait *w, enum status status,
	const char *text, struct members_box *box, struct members_outcome *outcome);

/* members_leave.c */

/* Answers those who have left, where nobody is waited for any more or the group has an error. */
void members_leave_check(struct members *m);
/* A leave is overdue: that is an error of the group, told to all. */
void members_leave_overdue(struct members *m, int64_t now_us);
/* All who wait for others to leave get that; text must stay, o is borrowed. */
void members_leave_all(
	struct members *m, enum status status, const char *text, struct members_outcome *o);
/* No leave has failed. */
void members_leave_clear(struct members *m);
