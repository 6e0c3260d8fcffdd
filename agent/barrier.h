/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Barriers among tasks: pure. No clock, no loop, no connection; the time is an argument and answers
 * come by callback from inside the step that decides them. A member is a small number that the
 * caller gives (a slot); names of members for texts come from a function.
 *
 * The first to arrive fixes the members and the deadline. Each name is reusable; its uses are
 * counted from 0, failed ones too. A member that failed or ended, or that an operator stopped,
 * fails what waits for it at once. A recoverable member that ends does not: its old wait is
 * cancelled and the barrier waits for its next process. A member that was too late (its barrier had
 * failed) gets that failure once, and goes with the others after that; of several that it missed,
 * it gets the last. A member that arrives twice counts once: the older wait is cancelled.
 *
 * What a failure is called: DEADLINE_EXCEEDED (missing: all who had not come), INTERNAL (missing:
 * who failed), FAILED_PRECONDITION (missing: who was stopped), INVALID_ARGUMENT (missing: whose
 * call was wrong), CANCELLED and what barriers_stop() is told (missing: all who had not come). A
 * wrong call where nobody waits fails a use of its own, so that the others learn of it whatever the
 * order.
 *
 * Limits: the names used last are remembered. Where there are too many, those that nobody waits at
 * are forgotten, the longest unused first, at last with failures that nobody has come for: their
 * count begins at 0 again. Where all names are waited at, or too many members are waited for, an
 * arrival that needs another gets RESOURCE_EXHAUSTED.
 *
 * A callback may call any function of this module but barriers_free(). Answers that such a call
 * decides come after the callback has returned, in the order in which they were decided.
 */

#include "common/cleanup.h"
#include "common/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	BARRIER_NAME_MAX = 256, /* bytes */
	BARRIER_NAMES = 65536,
	BARRIER_SLOTS = 8192, /* slots are 0 .. BARRIER_SLOTS - 1 */
	BARRIER_MEMBERS =
		1 << 20, /* of all open barriers and of failures that are kept, together */
};

struct barriers;

struct barrier_answer {
	enum status status;
	char message[512];  /* valid UTF-8 where the names and texts given are; cut with "and N
			     * more" where many are missing; "" for OK */
	const int *missing; /* slots, sorted, borrowed during the callback */
	size_t n_missing;
	int64_t generation;
};
/* token is what the caller gave with the arrival. */
typedef void (*barrier_answer_fn)(void *arg, void *token, const struct barrier_answer *answer);
/* Borrowed text "role:index" of a slot, until the next call. */
typedef const char *(*barrier_name_fn)(void *arg, int slot);

_must_check_ int barriers_new(
	barrier_answer_fn answer, barrier_name_fn name, void *arg, struct barriers **ret);
struct barriers *barriers_free(struct barriers *b); /* open waits end without an answer */
DEFINE_CLEANUP(struct barriers *, barriers_free)

/* A new incarnation of the group: nothing is left of the last one. Waits get CANCELLED. */
void barriers_reset(struct barriers *b, const char *why);

/*
 * slot arrives at name. members (slots, any order, repeated ones count once) in n; they fix the set
 * where this is the first arrival and else must be the same set, with slot in it (INVALID_ARGUMENT
 * fails the whole barrier). deadline_ms: on the caller's clock, UINT64_MAX for none; the first
 * arrival's counts, and who comes at it is too late. The answer may come from inside this call.
 * Returns 0 or -ENOMEM (nothing has happened).
 */
_must_check_ int barriers_arrive(struct barriers *b, const char *name, int slot, const int *members,
	size_t n, uint64_t deadline_ms, uint64_t now_ms, void *token);
/*
 * The same where slot has named nobody: members are those that are meant now. Where the first to
 * come had named nobody either, slot goes with the members that were meant then; one that was none
 * of them is told INVALID_ARGUMENT by itself, without harm to the others. As long as
 * barriers_begun_default() says that it is so, members may be slot alone.
 */
_must_check_ int barriers_arrive_default(struct barriers *b, const char *name, int slot,
	const int *members, size_t n, uint64_t deadline_ms, uint64_t now_ms, void *token);
/* Whether somebody who has named nobody was the first to come to name, and others may still come.
 */
bool barriers_begun_default(const struct barriers *b, const char *name, uint64_t now_ms);
/* The wait with this token is taken back (its connection is gone); the arrival itself stays, as
 * that of a task which does not wait for the others. No answer. An unknown token means nothing. */
void barriers_forget(struct barriers *b, void *token);

/* Whoever waits gets CANCELLED with message; those who come later get it once. 0, -ENOENT for a
 * name that nobody waits at now. */
_must_check_ int barriers_cancel(struct barriers *b, const char *name, const char *message);
/* The same with another status, for a call of slot (-1: nobody's) that was wrong before it could be
 * an arrival: one that names a member that there is not. slot is not told of it again. */
_must_check_ int barriers_fail(
	struct barriers *b, const char *name, int slot, enum status status, const char *message);

/*
 * slot can arrive no more in this incarnation of it: its process ended, it is being stopped, or it
 * has reported an error. bad: other than by exit code 0. recoverable: it may come again as a new
 * process (barriers_task_started()). Where it had arrived already, a good end changes nothing, a
 * bad one fails the barrier or, of a recoverable one, takes the arrival back. why: "exit code 3".
 */
void barriers_task_ended(struct barriers *b, int slot, bool bad, bool recoverable, const char *why);
/* An operator stopped slot: it arrives no more, and that is no failure of its own. An arrival that
 * it has made stays. */
void barriers_task_stopped(struct barriers *b, int slot);
/* A new process of slot, which has missed nothing. */
void barriers_task_started(struct barriers *b, int slot);

/* All waits end with this; later arrivals too, until barriers_reset(). */
void barriers_stop(struct barriers *b, enum status status, const char *message);

/* Fails what is overdue; returns the next deadline (UINT64_MAX: none). */
uint64_t barriers_expire(struct barriers *b, uint64_t now_ms);
