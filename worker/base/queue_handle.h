/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The handles of the work queue: a queue, and a slot of a worker. */

#include "worker/base/answer_json.h"
#include "worker/base/connection.h"
#include "worker/elasticd_queue.h"

#include "common/varlink/queue_limits.h"

#include <stdatomic.h>

/* Keeps a queue without a name: it lives as long as its connection. */
struct keeper {
	struct pool *pool; /* of the process that opened it */
	struct conn *conn;
};

struct elasticd_queue {
	struct elasticd *h;
	char name[QUEUE_NAME_MAX + 1];
	struct keeper *keeper; /* NULL: the queue has a name */
};

/* How an item ends: with a failure, by being put back, or with a value (NULL: none). */
struct verdict {
	const struct elasticd_queue_failure *failure;
	const struct elasticd_queue_bytes *value;
	bool back;
};

/* The members of an item, in the text of the answer. */
struct item_text {
	struct answer_text kind, name, payload, base64, format, resources;
	int64_t lease, task, limit_ms, index, start, tries;
};

/* The call that was made before, and whose answer is not read yet. */
enum pending {
	PENDING_NOTHING,
	PENDING_WORK,	/* of Work */
	PENDING_ANSWER, /* of Finish, Fail or PutBack */
	PENDING_BOTH,	/* the same, which also has the next item */
};

struct elasticd_queue_work {
	struct elasticd *h;
	_Atomic(pid_t) pid;    /* whose slot it is */
	struct pool *pool;     /* of that process; NULL: none */
	struct conn *conn;     /* holds the lease; NULL: none */
	_Atomic int64_t lease; /* of the item; -1: none */
	bool has_item;
	struct elasticd_queue_item item;
	struct item_text text; /* refers to the connection's memory, or to owned_text */
	char *owned_text;
	void *owned_payload;
	const char **resources; /* owned */
	size_t resources_room;
	atomic_bool stopped; /* it gets no more items */
	bool waiting;	     /* for an item; with the pool's lock */
	enum pending pending;
	struct varlink_buffer
		call;		 /* the pending call, which may not have gone as a whole; owned */
	_Atomic uint64_t seen;	 /* the board's count of cancelled leases when it was last read */
	_Atomic int64_t look_at; /* where there is no board: when to call Look again */
};

/* The format of bytes that may be NULL, or "". */
static inline const char *format_of(const struct elasticd_queue_bytes *b)
{
	return b && b->format ? b->format : "";
}

/* The lease that this thread was given last with h, unless it has ended; -1: none. */
int64_t thread_lease(const struct elasticd *h);
/* Notes that this thread was given a lease. */
void thread_lease_set(const struct elasticd *h, int64_t lease);
/* Notes that a lease has ended. */
void thread_lease_end(const struct elasticd *h, int64_t lease);
