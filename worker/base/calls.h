/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Calls to the agent. A new connection says Hello in the same write as its first call. A call that
 * is given up closes its connection, so that the agent gives it up, too.
 */

#include "worker/base/answer_json.h"
#include "worker/base/connection.h"
#include "worker/base/message.h"

/* Makes a call; takes a. ret (owned; may be NULL) has the parameters of the answer. */
enum elasticd_status call_make(
	struct elasticd *h, const char *method, struct params *a, struct wait wait, json_t **ret);
/* The same, with an answer that reader reads. */
enum elasticd_status call_read(struct elasticd *h, const char *method, struct params *a,
	struct wait wait, const struct answer_reader *reader);

/* Waits before a call is made again. interruptible: by a signal, whatever the handle says. */
enum elasticd_status call_pause(struct elasticd *h, int ms, bool interruptible);

/*
 * Makes a call on a connection that the caller keeps: *c, or, where that is NULL, a new one. again:
 * the call was begun on it before; sends the rest, and waits for the answer. On OK, ret has the
 * answer where reader has not read it; an answer that is an error is in ret, too. Without an answer
 * the connection is dropped and *c is NULL, except where the call can go on: a signal came, or the
 * time of a call that was begun before is over.
 */
enum elasticd_status call_on(struct elasticd *h, struct pool *p, struct conn **c,
	const struct varlink_buffer *call, bool again, struct wait wait,
	const struct answer_reader *reader, struct varlink_in *ret);

/* Several calls in one write. */
struct calls {
	const void *owner;	      /* by which they are known when they are made again */
	struct varlink_buffer buffer; /* owned */
	size_t n;		      /* answers to come */
	/* How the next answer is read. */
	struct answer_reader (*reader)(struct calls *calls);
	/* The next answer has come, and was read where its status is OK. */
	void (*answered)(struct calls *calls, enum elasticd_status status);
	void *arg;
};
/* Makes them, or goes on with the calls of the same owner that a signal has ended, with their
 * buffer and n. A status that is not OK is of no answer: n answers are missing. */
enum elasticd_status call_many(struct elasticd *h, struct calls *calls, struct wait wait);

/* Makes a "more" call on a connection of its own and waits for its first answer, after which
 * nothing is missed; takes a. ret_first: the parameters of that answer, owned. */
enum elasticd_status call_stream(struct elasticd *h, struct pool *p, const char *method,
	struct params *a, struct conn **ret, json_t **ret_first);
/* The parameters of the next answer, owned. ret_last: no other follows. */
enum elasticd_status call_stream_next(struct elasticd *h, struct pool *p, struct conn *c,
	struct wait wait, json_t **ret, bool *ret_last);
