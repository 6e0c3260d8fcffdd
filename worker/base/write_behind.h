/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writes that are not waited for. A pool has one connection for them, its writer, while some have
 * no answer yet; answers come in order, and are taken when there is something else to be done. What
 * is not answered yet is kept, so that this process reads what it has written. Every other call
 * first waits until all are answered, so that it happens after them.
 *
 * All open writes fit a socket, and so do their answers, even where all fail: so a write waits for
 * an agent that is slow, and the agent waits for no answer to be read. Only pool.h includes this.
 */

#include "common/varlink/message.h"
#include "worker/base/connection.h"

#include <semaphore.h>

struct pool;

enum {
	WRITES_MOST = 32, /* fewer than the calls of a connection that the agent handles at once */
	WRITER_BYTES = 64 << 10, /* of all open writes, with their answers */
};

/* One that has no answer yet. */
struct write {
	char *data; /* its key, with a NUL, and its value */
	size_t room, key_len, len;
	size_t cost; /* its bytes and those that its answer may have */
};

struct writer {
	sem_t lock;	   /* that a signal can end the wait for */
	atomic_uint n;	   /* writes without an answer */
	struct conn *conn; /* busy; NULL: none, and n is 0 */
	struct write writes[WRITES_MOST];
	unsigned first;
	size_t cost;		  /* of all */
	struct varlink_in failed; /* the first answer with an error that nobody was told; or none */
	unsigned lost;		  /* writes that will never have an answer, likewise */
};

void writer_init(struct writer *w);
/* Before the pool is freed. */
void writer_fini(struct pool *p);

/* Hands it over. A status; negative: it is to be an ordinary call. */
int writer_put(struct elasticd *h, struct pool *p, const char *key, const void *value, size_t len,
	int flags);
/* Waits until all are answered, for a call that is about to begin. A status. */
int writer_settle(struct elasticd *h, struct pool *p, struct wait wait);
/* What this process has written and has no answer of: ret_found. Otherwise all are answered when it
 * returns. A status. */
int writer_get(struct elasticd *h, struct pool *p, const char *key, int timeout_ms, void **ret,
	size_t *ret_len, bool *ret_found);
/* Waits, and tells the first error. A status. */
int remote_flush(struct elasticd *h, int timeout_ms);
