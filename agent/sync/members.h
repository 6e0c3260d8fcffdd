/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The workers of a group as they know each other: which are healthy, which are alive, which have
 * left, and the group's error. Pure: no clock, no loop, no connection. Members are slots, as in
 * barrier.h; answers come by callback from inside the step that decides them.
 *
 * A callback may call any function of this module except members_free(). Answers decided by such a
 * call come after the callback has returned, in the order in which they were decided; the group's
 * error comes before the answers of the same step.
 */

#include "agent/sync/slots_text.h"
#include "common/base/cleanup.h"
#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	MEMBERS_ERROR_MAX = 8192, /* bytes of an error's message; more is cut */
	MEMBERS_SLOTS = 65536,	  /* slots are 0 .. MEMBERS_SLOTS - 1 */
};

struct members;

struct members_error {
	enum status code;
	char *message; /* owned by members */
	int slot;      /* the worker it is about */
	bool reported; /* by the worker itself */
	int64_t time_us;
};

/* The answer of a wait for the error (error is set), for the living members (slots), or of a leave.
 * Its pointers are borrowed during the callback. */
struct members_answer {
	enum status status;
	const char *message;		   /* "" for OK */
	const struct members_error *error; /* WAIT_ERROR */
	const int *slots; /* sorted. ALIVE: the living, or on failure those that have not called.
			     LEAVE: on failure those that have not left (empty without memory) */
	size_t n;
	char **text; /* ALIVE, OK: room for what the callback makes of slots, NULL at first; all
			that get the same slots share it; the last one frees it */
};
typedef void (*members_answer_fn)(void *arg, void *token, const struct members_answer *answer);
/* Gets the first error of the attempt that counts for the group. May be NULL. */
typedef void (*members_error_fn)(void *arg, const struct members_error *error);

struct members_options {
	members_answer_fn answer;
	members_error_fn error;
	slots_name_fn name;
	void *arg;
};

_must_check_ int members_new(const struct members_options *opt, struct members **ret);
struct members *members_free(struct members *m);

/* A new attempt: no members, no error. Open waits get CANCELLED. */
void members_reset(struct members *m);
/*
 * A process of slot began: it is alive, has no error and has not left. If the group's error was
 * that of slot's last process, it is over: the oldest remaining error that counts replaces it, and
 * the error callback gets that one, too. observer: the slot is not in default sets, and its end is
 * no error. 0, -ENOMEM, -EINVAL for an impossible slot.
 */
_must_check_ int members_started(struct members *m, int slot, bool recoverable, bool observer);
/*
 * The process of slot ended; its waits are CANCELLED. bad: it ended other than by exit code 0, and
 * neither the agent nor a person stopped it. A bad end becomes slot's own error (UNAVAILABLE,
 * naming it) unless it has reported one, and the group's error if there is none yet. The ends of
 * recoverable members, observers, and members that had left are no errors of the group.
 */
void members_ended(struct members *m, int slot, bool bad, const char *why, int64_t now_us);
/* A worker reports an error: its own, if it has none since its start, and the group's, if there is
 * none. That of a recoverable member is only its own. 0, -ENOMEM (nothing has happened), -EINVAL
 * when slot has not started. */
_must_check_ int members_report(
	struct members *m, int slot, enum status code, const char *message, int64_t now_us);
/* Ends all waits, and later ones until members_reset(), with status and message. Waits for the
 * error still get an existing error. */
void members_stop(struct members *m, enum status status, const char *message);

/* Borrowed until the next change; NULL when there is none. */
const struct members_error *members_group_error(const struct members *m);
/* The group's error if a worker reported it, else the oldest reported one that counts. Programs
 * fail with this error; the end of a worker concerns the agent. */
const struct members_error *members_reported_error(const struct members *m);
const struct members_error *members_own_error(const struct members *m, int slot);
/* True when slot is alive, has no error and has not left. */
bool members_healthy(const struct members *m, int slot);
bool members_left(const struct members *m, int slot);

/* Waits for the group's error. deadline_ms: on the caller's clock, UINT64_MAX: none;
 * members_expire() ends an overdue wait with DEADLINE_EXCEEDED. The answer may come from inside. 0,
 * or -ENOMEM when nothing has happened. */
_must_check_ int members_wait_error(struct members *m, uint64_t deadline_ms, void *token);
/*
 * Waits for the living members of set (n slots, any order). slot must be in set, else
 * INVALID_ARGUMENT. All callers with the same set get one answer, once every member of it that is
 * alive and has not left has called: those members. by_default: the caller gives no list, and its
 * set is that of the first such caller that waits, or else set. While members_begun_default() is
 * true, the caller may pass slot alone.
 */
_must_check_ int members_wait_alive(struct members *m, int slot, const int *set, size_t n,
	bool by_default, uint64_t deadline_ms, void *token);
/* True when a caller without a list waits, and slot is one of its set. */
bool members_begun_default(const struct members *m, int slot);
/*
 * slot leaves. The answer comes when all of the default set, except recoverable members, have left
 * or ended well. The earliest deadline fails the leave for all, later ones too (DEADLINE_EXCEEDED,
 * naming those that have not left), and becomes an error of the group, attributed to the first of
 * those. When the group has another error the wait ends with ABORTED. In each case slot has left.
 */
_must_check_ int members_leave(struct members *m, int slot, uint64_t deadline_ms, void *token);
/* Drops a wait without an answer; a member that has left stays so. An unknown token is ignored. */
void members_forget(struct members *m, void *token);
/* Ends waits that are overdue. Returns the next deadline (UINT64_MAX: none). now_us: the time for
 * an error that this makes. */
uint64_t members_expire(struct members *m, uint64_t now_ms, int64_t now_us);
