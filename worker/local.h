/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A group of one, for a program that no agent supervises. There is one store per process, whatever
 * the number of handles, as there would be with an agent; a child of fork() goes on with a copy.
 * Everything is under one lock, which fork() takes first: a child finds what it copied whole.
 *
 * A wait is a struct local_wait on its thread's stack. Whoever changes something wakes all of them,
 * and each looks again; what a wait must not miss is written into it.
 */

#include "worker/private.h"

#include <semaphore.h>
#include <sys/queue.h>

/* Shared by the store and what watches remember. */
struct local_value {
	int refs;
	size_t len;
	char data[];
};

struct local_wait {
	TAILQ_ENTRY(local_wait) entry;
	struct elasticd *h;
	sem_t wake;
	const char *key;	   /* of a get, or NULL */
	struct local_value *value; /* what was put there; owned */
};

void local_lock(void);
void local_unlock(void);
/* Takes the lock for a call; a status, without the lock, where the handle was cancelled. */
_must_check_ int local_enter(const struct elasticd *h);
/* Starts a wait, ends one; with the lock. */
void local_wait_begin(struct local_wait *w, struct elasticd *h);
void local_wait_end(struct local_wait *w);
/* Gives up the lock until something has changed (0), or a status: the handle is closed, the time is
 * over (end as clock_end() gives it), a signal came. */
_must_check_ int local_wait_next(struct local_wait *w, int64_t end);
/* Something has changed; with the lock. */
void local_wake(void);
/* The waits that are open, with the lock. */
struct local_wait *local_first_wait(void);

/* The rest with the lock, too. Reference counts; NULL is accepted by unref. */
struct local_value *local_value_new(const void *data, size_t len);
struct local_value *local_value_ref(struct local_value *v);
void local_value_unref(struct local_value *v);
/* An owned copy with a NUL behind it; NULL without memory. */
void *local_value_copy(const struct local_value *v);

/* Remembers a change for watches (value NULL: deleted). What cannot be remembered for want of
 * memory is a gap for those who watch. */
void local_change(const char *key, struct local_value *value, int64_t revision);
int64_t local_revision(void);
/* Whether name is key or below it; the empty key is above all. */
bool local_covers(const char *key, const char *name);

int local_put(struct elasticd *h, const char *key, const void *value, size_t len, int flags);
int local_get(struct elasticd *h, const char *key, int timeout_ms, void **ret, size_t *ret_len);
int local_delete(struct elasticd *h, const char *key, int64_t *ret);
int local_list(struct elasticd *h, const char *key, struct elasticd_entry **ret, size_t *ret_n);

int local_watch_open(struct elasticd *h, const char *key, int64_t since, void **ret);
int local_watch_next(void *stream, int timeout_ms, struct elasticd_entry **ret);
void local_watch_close(void *stream);

int local_events_open(struct elasticd *h, void **ret);
int local_events_next(void *stream, int timeout_ms, struct elasticd_event **ret);
void local_events_close(void *stream);
int local_barrier(
	struct elasticd *h, const char *name, const char *const *members, size_t n, int timeout_ms);
int local_barrier_cancel(struct elasticd *h, const char *name, const char *message);
int local_alive(struct elasticd *h, const char *const *members, size_t n, int timeout_ms,
	char ***ret, size_t *ret_n);
int local_states(struct elasticd *h, const char *const *roles, size_t n,
	struct elasticd_member **ret, size_t *ret_n);
int local_result(struct elasticd *h, const void *value, size_t len);
int local_report(struct elasticd *h, int code, const char *message);
int local_wait_error(struct elasticd *h, int timeout_ms, struct elasticd_error **ret);
int local_leave(struct elasticd *h, int timeout_ms);
/* The group's error as this call's, 0 where there is none; with the lock. */
int local_error_fail(void);

/* What elasticd_step() and elasticd_notice() look at: one for all handles. */
struct board_header *local_header(void);
int local_step(struct elasticd *h, int64_t n, int *ret_action);
int local_saved(struct elasticd *h, int64_t n, const char *path);
int local_preemption(struct elasticd *h, struct elasticd_preemption *ret);
int local_notify(struct elasticd *h, const char *reason, int64_t grace_ms);

/* Of the queue: what other threads had is theirs no more. */
void local_queue_in_child(void);
