/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Barriers among workers. Pure: no clock, no loop, no connection; the time is an argument, and
 * answers come by callback from inside the step that decides them. A member is a worker, given by a
 * small number (its slot); a function returns the names for texts.
 *
 * The worker that arrives first fixes the members and the deadline. A name can be used again; its
 * uses are counted from 0, failed ones too. A member that fails, ends, or is stopped by an operator
 * fails every barrier that still waits for it. When a recoverable member ends, its own wait is
 * cancelled and the barrier waits for its next process. A member that arrives after its barrier has
 * failed gets that failure once, and takes part in the next use after that; of several failures
 * that it missed, it gets the last. When a member arrives twice, the older wait is cancelled.
 *
 * Statuses of a failure, and the members listed as missing: DEADLINE_EXCEEDED (all that had not
 * arrived), INTERNAL (those that failed), FAILED_PRECONDITION (those stopped by an operator),
 * INVALID_ARGUMENT (the one whose call was wrong), CANCELLED and the status given to
 * barriers_stop() (all that had not arrived). A wrong call fails a use of its own when no worker
 * waits at the name, so that later members learn of it.
 *
 * Limits: beyond BARRIER_NAMES, names without waits are forgotten, the longest unused first, and
 * at last those with failures that some member has not got yet; the count of a forgotten name
 * begins at 0 again. When every name has waits, or open barriers have too many members, an arrival
 * gets RESOURCE_EXHAUSTED.
 *
 * A callback may call any function of this module except barriers_free(). Answers decided by such
 * a call come after the callback has returned, in the order in which they were decided.
 */

#include "agent/sync/slots_text.h"
#include "common/base/cleanup.h"
#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	BARRIER_NAME_MAX = 256, /* bytes */
	BARRIER_NAMES = 65536,
	BARRIER_SLOTS = 65536, /* slots are 0 .. BARRIER_SLOTS - 1 */
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
/* token: as given with the arrival. */
typedef void (*barrier_answer_fn)(void *arg, void *token, const struct barrier_answer *answer);

struct barrier_use;

/* A barrier that has been passed or has failed. */
struct barrier_over {
	const char *name;
	const struct barrier_answer *answer;
	uint64_t opened_ms;	       /* when the first worker arrived */
	const struct barrier_use *use; /* for barrier_arrivals() */
};
/* Runs before the answers, and may call no function that changes the barriers. */
typedef void (*barrier_over_fn)(void *arg, const struct barrier_over *over);

struct barrier_arrival {
	int slot;
	uint64_t at_ms;
};

_must_check_ int barriers_new(
	barrier_answer_fn answer, slots_name_fn name, void *arg, struct barriers **ret);
struct barriers *barriers_free(struct barriers *b); /* open waits end without an answer */

/* over: with the arg of the answers; NULL: none. */
void barriers_on_over(struct barriers *b, barrier_over_fn over);
/* The members that arrived, ordered by their times. Returns owned, NULL without memory. */
struct barrier_arrival *barrier_arrivals(const struct barrier_over *over, size_t *ret_n);

/* A new attempt: forgets all names. Open waits get CANCELLED. */
void barriers_reset(struct barriers *b);

/*
 * The worker at slot arrives at name. members: n slots in any order, duplicates allowed, slot among
 * them. The first arrival fixes the set; later ones must give the same, else INVALID_ARGUMENT fails
 * the barrier for all. deadline_ms: on the caller's clock, UINT64_MAX: none; only that of the first
 * arrival counts, and an arrival at or after it is too late. The answer may come from inside this
 * call. Returns 0, or -ENOMEM when nothing has happened.
 *
 * by_default: the worker gives no list, and members are the default members at this moment. The
 * list of the first arrival applies to all later ones. A later worker that is not in that list gets
 * INVALID_ARGUMENT, without harm to the others. While barriers_begun_default() is true, the caller
 * may pass slot alone.
 */
_must_check_ int barriers_arrive(struct barriers *b, const char *name, int slot, const int *members,
	size_t n, bool by_default, uint64_t deadline_ms, uint64_t now_ms, void *token);
/* True when name is open and its first arrival gave no list of members. */
bool barriers_begun_default(const struct barriers *b, const char *name, uint64_t now_ms);
/* Drops the wait with this token (its connection is gone), without an answer. The arrival stays:
 * the worker counts as arrived but does not wait. An unknown token is ignored. */
void barriers_forget(struct barriers *b, void *token);

/* Fails the barrier: all that wait get status with message, members that come later get it once.
 * slot: the worker whose wrong call this is, such as one that names a member that does not exist;
 * it does not get the failure again. -1: a worker cancels the barrier. Returns 0, or -ENOENT when
 * no worker waits at name. */
_must_check_ int barriers_fail(
	struct barriers *b, const char *name, int slot, enum status status, const char *message);

/*
 * The present process of slot will arrive at no barrier: it ended, is being stopped, or has
 * reported an error. bad: it ended other than by exit code 0. recoverable: a new process may follow
 * (barriers_worker_started()). At a barrier where slot has arrived, a good end changes nothing; a
 * bad one fails the barrier or, for a recoverable worker, takes the arrival back. why: "exit code
 * 3".
 */
void barriers_worker_ended(
	struct barriers *b, int slot, bool bad, bool recoverable, const char *why);
/* An operator stopped slot: it will arrive at no barrier, which is no failure of its own. Its
 * arrivals stay. */
void barriers_worker_stopped(struct barriers *b, int slot);
/* A new process of slot begins, without failures to catch up on. */
void barriers_worker_started(struct barriers *b, int slot);

/* Ends all waits, and later arrivals until barriers_reset(), with status and message. */
void barriers_stop(struct barriers *b, enum status status, const char *message);

/* Fails barriers that are overdue. Returns the next deadline (UINT64_MAX: none). */
uint64_t barriers_expire(struct barriers *b, uint64_t now_ms);
