/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files of the work queue share; nobody else includes this. */

#include "common/varlink/queue_limits.h"
#include "worker/base/handle.h"

struct elasticd_queue {
	struct elasticd *h;
	char name[QUEUE_NAME_MAX + 1];
	bool own; /* it is kept by this process */
	void *keep;
};

/* What an item ends with: a failure, nothing (back), or a value, which may be NULL. */
struct verdict {
	const struct elasticd_failure *failure;
	const struct elasticd_bytes *value;
	bool back;
};

struct elasticd_work {
	struct elasticd *h;
	_Atomic(pid_t) pid; /* whose place it is */
	bool has;	    /* an item */
	struct elasticd_item item;
	_Atomic int64_t lease; /* of it; -1: none */
	void *place;	       /* the side's */
};

/* What the public functions leave to a side. Arguments were checked; ret_* are never NULL. */
struct queue_side {
	int (*open)(struct elasticd_queue *q);
	void (*close)(struct elasticd_queue *q);
	/* ret_accepted is 0 at first. */
	int (*submit)(struct elasticd_queue *q, const struct elasticd_new_task *tasks, size_t n,
		int timeout_ms, int64_t *ret_tasks, size_t *ret_accepted);
	int (*join)(struct elasticd_queue *q, int timeout_ms);
	int (*done)(struct elasticd_queue *q, int *ret);
	int (*cancel)(struct elasticd_queue *q, const int64_t *tasks, size_t n, const char *reason,
		int timeout_ms, size_t *ret_n);
	int (*fetch)(struct elasticd_queue *q, const int64_t *tasks, size_t n, int flags,
		int timeout_ms, struct elasticd_outcome **ret, size_t *ret_n);
	int (*release)(struct elasticd_queue *q, const int64_t *tasks, size_t n);
	int (*stats)(struct elasticd *h, const char *queue, struct elasticd_queue_stats *ret);
	int (*close_all)(struct elasticd *h);
	int (*resource_create)(
		struct elasticd *h, const char *name, const struct elasticd_bytes *payload);
	int (*resource_drop)(struct elasticd *h, const char *name);
	int (*call)(struct elasticd *h, const char *const *workers, size_t n,
		const struct elasticd_bytes *payload, int timeout_ms, int answer_timeout_ms,
		struct elasticd_answer **ret, size_t *ret_n);
	int (*work_open)(struct elasticd_work *w);
	/* ours: not of a parent. */
	void (*work_close)(struct elasticd_work *w, bool ours);
	/* What a parent had is not this process's. */
	void (*work_renew)(struct elasticd_work *w);
	/* Sets w->has and w->item, or *ret_closed. */
	int (*work_next)(struct elasticd_work *w, int timeout_ms, bool *ret_closed);
	/* Clears w->has where the item is over; next: and then the same, in one. */
	int (*work_answer)(struct elasticd_work *w, const struct verdict *v, bool next,
		int timeout_ms, bool *ret_closed);
	/* Whether an answer with next, which a signal has ended, is still under way. */
	bool (*work_under_way)(const struct elasticd_work *w);
	bool (*work_cancelled)(struct elasticd_work *w);
};
extern const struct queue_side queue_remote;

/* --- worker/api/work.c */

/* The lease that this thread was given last, of a place of h, and has not ended; -1: none. */
int64_t work_lease(const struct elasticd *h);

/* --- worker/api/queue.c */

/* INVALID_ARGUMENT for what is no payload or value; NULL is. */
int check_bytes(const char *what, const struct elasticd_bytes *b);
/* Grows a list of size-byte elements to n; 0 or -ENOMEM. */
_must_check_ int list_grow(void **list, size_t *room, size_t n, size_t size);

/* Parameters that several have. */
static inline const char *format_of(const struct elasticd_bytes *b)
{
	return b && b->format ? b->format : "";
}
