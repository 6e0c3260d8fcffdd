/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the tasks of a group know of each other: who is healthy, the group's error, who has taken its
 * leave, and the set of those alive. Pure: no clock, no loop, no connection. Members are slots, as
 * in barrier.h; answers come by callback from inside the step that decides them.
 */

#include "common/cleanup.h"
#include "common/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MEMBERS_ERROR_MAX = 8192 }; /* bytes of an error's message; more is cut */

struct members;

struct members_error {
	enum status code;
	char *message; /* owned by members */
	int slot;      /* of whom */
	bool reported; /* by the task itself */
	int64_t time_us;
};

/* The end of a wait for the error (error is set), of an alive question (slots), or of a leave. */
struct members_answer {
	enum status status;
	const char *message;
	const struct members_error *error; /* WAIT_ERROR */
	const int *slots;		   /* ALIVE: who lives; LEAVE that failed: who has not left */
	size_t n;
};
typedef void (*members_answer_fn)(void *arg, void *token, const struct members_answer *answer);
/* The first error of the incarnation that counts. */
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
/* slot's process began. observer: no part of default sets, its end is nobody's business. */
_must_check_ int members_started(struct members *m, int slot, bool recoverable, bool observer);
/* It ended. bad: other than by exit code 0, and not because the agent or a person stopped it. A bad
 * end of a member that is neither recoverable nor an observer is an error (UNAVAILABLE naming it)
 * where there is none yet. */
void members_ended(
	struct members *m, int slot, bool bad, const char *why, int64_t now_us);
/* A task said so. Of a recoverable member: it is kept as its own, but is not the group's error. */
_must_check_ int members_report(struct members *m, int slot, enum status code, const char *message,
	int64_t now_us);
/* All waits end with this. */
void members_stop(struct members *m, enum status status, const char *message);

/* Borrowed until the next change; NULL when there is none. */
const struct members_error *members_group_error(const struct members *m);
const struct members_error *members_own_error(const struct members *m, int slot);
bool members_healthy(const struct members *m, int slot);
bool members_alive(const struct members *m, int slot);
bool members_left(const struct members *m, int slot);
/* The slots of the default set (started in this incarnation, no observers), owned, sorted. */
_must_check_ int members_default_set(const struct members *m, int **ret, size_t *ret_n);

/* Waits; deadline_ms on the caller's clock, UINT64_MAX: none. The answer may come from inside. */
_must_check_ int members_wait_error(struct members *m, uint64_t deadline_ms, void *token);
/* set (n slots) must contain slot: else INVALID_ARGUMENT. All who ask with the same set are answered
 * together. */
_must_check_ int members_ask_alive(struct members *m, int slot, const int *set, size_t n,
	uint64_t deadline_ms, void *token);
_must_check_ int members_leave(struct members *m, int slot, uint64_t deadline_ms, void *token);
/* Takes a wait back without an answer. */
void members_forget(struct members *m, void *token);
uint64_t members_expire(struct members *m, uint64_t now_ms);
