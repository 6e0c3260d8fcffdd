/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Puts that do not wait for their answers (ELASTICD_PUT_NOWAIT). While some have no answer yet, a
 * pool uses one connection for them; answers come in their order, and are read on later occasions.
 * The writes without an answer are kept, so that this process reads what it has written. Every
 * other call first waits until all are answered, so that it happens after them.
 *
 * All writes without an answer, and all their answers even if each is an error, fit into the
 * buffers of a socket: so this process waits for a slow agent, and the agent never waits until this
 * process reads. Only pool.h includes this.
 */

#include "common/varlink/message.h"
#include "worker/base/connection.h"

#include <semaphore.h>
#include <stdatomic.h>

enum {
	WRITES_MAX = 32,	     /* less than what the agent handles at once on a connection */
	WRITES_BYTES_MAX = 64 << 10, /* of all writes without an answer, with their answers */
};

/* A write without an answer. */
struct write {
	char *data; /* its key, with a NUL, and its value */
	size_t room, key_len, len;
	size_t cost; /* its bytes, and the most that its answer may have */
};

struct write_behind {
	sem_t lock;	   /* a mutex whose wait a signal can end */
	atomic_uint n;	   /* writes without an answer */
	struct conn *conn; /* busy; NULL: none, and n is 0 */
	struct write writes[WRITES_MAX];
	unsigned first;
	size_t cost;		  /* of all */
	struct varlink_in failed; /* the first error, until the caller has it */
	unsigned lost;		  /* writes that will never have an answer, likewise */
};

void write_behind_init(struct write_behind *w);
/* Before the pool is freed. */
void write_behind_fini(struct pool *p);

/* Hands a write over. *ret_ordinary: it has not, and an ordinary call must do it. */
enum elasticd_status write_behind_put(struct elasticd *h, struct pool *p, const char *key,
	const void *value, size_t len, int flags, bool *ret_ordinary);
/* Waits until all writes are answered, for a call that is about to begin. */
enum elasticd_status write_behind_settle(struct elasticd *h, struct pool *p, struct wait wait);
/* The value of a key that this process has written and that is not answered yet: *ret_found.
 * Otherwise all writes are answered when it returns. */
enum elasticd_status write_behind_get(struct elasticd *h, struct pool *p, const char *key,
	int timeout_ms, void **ret, size_t *ret_len, bool *ret_found);
/* Waits until all writes are answered, and returns the first error. */
enum elasticd_status write_behind_flush(struct elasticd *h, int timeout_ms);
