/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Barriers among tasks: pure. No clock, no loop, no connection; the time is an argument and answers
 * come by callback from inside the step that decides them. A member is a small number that the
 * caller gives (a slot); names of members for texts come from a function.
 *
 * The first to arrive fixes the members and the deadline. Each name is reusable; its uses are
 * counted from 0. A member that failed, or ended, or is stopping, fails what waits for it at once.
 * A recoverable member that ends does not: its old wait is cancelled and the barrier waits for its
 * next process. A member that was too late (its barrier had failed) gets that failure once, and goes
 * with the others after that. A member that arrives twice counts once: the older wait is cancelled.
 */

#include "common/cleanup.h"
#include "common/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BARRIER_NAME_MAX = 256, BARRIER_NAMES = 65536 };

struct barriers;

struct barrier_answer {
	enum status status;
	char message[512];   /* cut with "and N more" where many are missing */
	const int *missing;  /* slots, borrowed during the callback */
	size_t n_missing;
	int64_t generation;
};
/* token is what the caller gave with the arrival. */
typedef void (*barrier_answer_fn)(void *arg, void *token, const struct barrier_answer *answer);
/* Borrowed text "role:index" of a slot. */
typedef const char *(*barrier_name_fn)(void *arg, int slot);

_must_check_ int barriers_new(
	barrier_answer_fn answer, barrier_name_fn name, void *arg, struct barriers **ret);
struct barriers *barriers_free(struct barriers *b); /* open waits end without an answer */
DEFINE_CLEANUP(struct barriers *, barriers_free)

/* A new incarnation of the group: nothing is left of the last one. Waits get CANCELLED. */
void barriers_reset(struct barriers *b, const char *why);

/*
 * slot arrives at name. members (slots, any order) in n; they fix the set where this is the first
 * arrival and else must be the same set (INVALID_ARGUMENT fails the whole barrier). deadline_ms: on
 * the caller's clock, UINT64_MAX for none; the first arrival's counts. The answer may come from
 * inside this call. Returns 0 or -ENOMEM (nothing has happened).
 */
_must_check_ int barriers_arrive(struct barriers *b, const char *name, int slot, const int *members,
	size_t n, uint64_t deadline_ms, uint64_t now_ms, void *token);
/* The wait with this token is taken back (its connection is gone); the arrival itself stays, as that
 * of a task which does not wait for the others. No answer. */
void barriers_forget(struct barriers *b, void *token);

/* Whoever waits gets CANCELLED with message. 0, -ENOENT for a name that nobody waits at now. */
_must_check_ int barriers_cancel(struct barriers *b, const char *name, const char *message);

/* slot can arrive no more in this incarnation of it. recoverable: it may come again as a new process
 * (barriers_task_started()). why: "exit code 3". */
void barriers_task_ended(struct barriers *b, int slot, bool recoverable, const char *why);
void barriers_task_started(struct barriers *b, int slot);

/* All waits end with this; later arrivals too, until barriers_reset(). */
void barriers_stop(struct barriers *b, enum status status, const char *message);

/* Fails what is overdue; returns the next deadline (UINT64_MAX: none). */
uint64_t barriers_expire(struct barriers *b, uint64_t now_ms);
