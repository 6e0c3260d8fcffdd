/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the tasks of a group know of each other: who is healthy, the group's error, who has taken
 * its leave, and the set of those alive. Pure: no clock, no loop, no connection. Members are slots,
 * as in barrier.h; answers come by callback from inside the step that decides them.
 *
 * A callback may call any function of this module but members_free(). Answers that such a call
 * decides come after the callback has returned, in the order in which they were decided. Where a
 * step decides the group's error, that is told first.
 */

#include "common/cleanup.h"
#include "common/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	MEMBERS_ERROR_MAX = 8192, /* bytes of an error's message; more is cut */
	MEMBERS_SLOTS = 8192,	  /* slots are 0 .. MEMBERS_SLOTS - 1 */
};

struct members;

struct members_error {
	enum status code;
	char *message; /* owned by members */
	int slot;      /* of whom */
	bool reported; /* by the task itself */
	int64_t time_us;
};

/* The end of a wait for the error (error is set), of an alive question (slots), or of a leave. What
 * it points to is borrowed during the callback. */
struct members_answer {
	enum status status;
	const char *message;		   /* "" for OK */
	const struct members_error *error; /* WAIT_ERROR */
	const int *slots; /* sorted. ALIVE: who lives, or where it failed who has not asked; LEAVE
			   * that failed: who has not left (none where there is no memory) */
	size_t n;
};
typedef void (*members_answer_fn)(void *arg, void *token, const struct members_answer *answer);
/* The first error of the incarnation that counts; NULL: nobody is told. */
typedef void (*members_error_fn)(void *arg, const struct members_error *error);

struct members_options {
	members_answer_fn answer;
	members_error_fn error;
	const char *(*name)(void *arg, int slot);
	void *arg;
};

_must_check_ int members_new(const struct members_options *opt, struct members **ret);
struct members *members_free(struct members *m);
DEFINE_CLEANUP(struct members *, members_free)

/* A new incarnation: nobody is a member, no error, waits end CANCELLED. */
void members_reset(struct members *m, const char *why);
/*
 * slot's process began: it is alive, has no error of its own and has not left. Where the group's
 * error was its own, that is over with the process that it was of: the group has then the oldest
 * error of its members that counts, which is told as a new one, or none. observer: no part of
 * default sets, its end is nobody's business. 0, -ENOMEM, -EINVAL for a slot that cannot be.
 */
_must_check_ int members_started(struct members *m, int slot, bool recoverable, bool observer);
/*
 * It ended; what it waits for is CANCELLED. bad: other than by exit code 0, and not because the
 * agent or a person stopped it. A bad end is the task's own error (UNAVAILABLE naming it) where it
 * has reported none, and the group's where there is none yet, but not of a member that is
 * recoverable, an observer, or had left before.
 */
void members_ended(struct members *m, int slot, bool bad, const char *why, int64_t now_us);
/* A task said so: its own error, where it is the first since its start, and the group's, where that
 * is the first. Of a recoverable member: only its own. 0, -ENOMEM (nothing has happened), -EINVAL
 * for a slot that has not started. */
_must_check_ int members_report(
	struct members *m, int slot, enum status code, const char *message, int64_t now_us);
/* All waits end with this, later ones too until members_reset(); an error that there is already is
 * still told to who asks for it. */
void members_stop(struct members *m, enum status status, const char *message);

/* Borrowed until the next change; NULL when there is none. */
const struct members_error *members_group_error(const struct members *m);
/* The same where a task reported it, else the oldest one that was reported and counts: what a
 * program is to fail with, while the end of a task is the agent's business. */
const struct members_error *members_reported_error(const struct members *m);
const struct members_error *members_own_error(const struct members *m, int slot);
/* Alive, no error of its own, and has not left. */
bool members_healthy(const struct members *m, int slot);
/* Its process runs. */
bool members_alive(const struct members *m, int slot);
bool members_left(const struct members *m, int slot);
/* The slots of the default set (started in this incarnation, no observers), owned, sorted. */
_must_check_ int members_default_set(const struct members *m, int **ret, size_t *ret_n);

/* Waits; deadline_ms on the caller's clock, UINT64_MAX: none: who passes it gets DEADLINE_EXCEEDED
 * by members_expire(). The answer may come from inside. 0 or -ENOMEM (nothing has happened). */
_must_check_ int members_wait_error(struct members *m, uint64_t deadline_ms, void *token);
/*
 * set (n slots, any order) must contain slot: else INVALID_ARGUMENT. All who ask with the same set
 * are answered together, when each of the set that is alive and has not left asks: with those.
 */
_must_check_ int members_ask_alive(
	struct members *m, int slot, const int *set, size_t n, uint64_t deadline_ms, void *token);
/*
 * slot leaves: it is answered when all of the default set have left or ended well, but for those
 * that are recoverable. The earliest deadline fails it for all (DEADLINE_EXCEEDED naming who has
 * not left), also for later ones, and is an error of the group, of the first of those. Where the
 * group has another error nobody waits: ABORTED. The slot has left all the same.
 */
_must_check_ int members_leave(struct members *m, int slot, uint64_t deadline_ms, void *token);
/* Takes a wait back without an answer; a leave stays one. An unknown token means nothing. */
void members_forget(struct members *m, void *token);
/* Ends what is overdue; returns the next deadline (UINT64_MAX: none). now_us: when, for an error.
 */
uint64_t members_expire(struct members *m, uint64_t now_ms, int64_t now_us);
