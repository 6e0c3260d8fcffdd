/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/base/calls.h"
#include "worker/base/failure.h"
#include "worker/base/handle.h"
#include "worker/base/pool.h"
#include "worker/base/waiting.h"

#include <errno.h>
#include <string.h>
#include <time.h>

/* The status of a connection's negative errno. */
static enum elasticd_status fail_connection(struct pool *p, int r, const struct wait *wait)
{
	if (pool_closing(p))
		return fail_closed();
	if (wait->stopped && atomic_load(wait->stopped))
		return fail_stopped();
	if (r == -EINTR)
		return fail_interrupted();
	if (r == -ETIMEDOUT && wait->prompt)
		return fail(ELASTICD_STATUS_UNAVAILABLE, "the agent does not answer");
	if (r == -ETIMEDOUT && wait->margin_ms)
		return fail(ELASTICD_STATUS_DEADLINE_EXCEEDED,
			"the agent has not answered, %d ms after the time limit of %d ms",
			wait->margin_ms, wait->timeout_ms);
	if (r == -ETIMEDOUT)
		return fail(ELASTICD_STATUS_DEADLINE_EXCEEDED, "nothing came within %d ms",
			wait->timeout_ms);
	if (r == -EOWNERDEAD)
		return fail(ELASTICD_STATUS_UNAVAILABLE,
			"the queue is gone with its agent: all of it was cancelled");
	if (r == -EDEADLK)
		return fail_alone();
	if (r == -ENOMEM || r == -EBADMSG || r == -EMSGSIZE)
		return fail_reading(r);
	if (wait->ret_lost)
		*wait->ret_lost = CALL_LOST;
	return fail(ELASTICD_STATUS_UNAVAILABLE, "the agent has closed the connection: it is gone");
}

/* --- connecting and sending */

static int hello_message(struct elasticd *h, struct varlink_buffer *b)
{
	struct params a = PARAMS_EMPTY;

	params_text(&a, "token", h->token_text);
	return params_message(&a, "Hello", false, b);
}

static enum elasticd_status call_connect(struct elasticd *h, struct pool *p,
	const struct wait *wait, const struct deadline *d, struct conn **ret)
{
	struct error err = { 0 };
	struct conn *c;
	int r = conn_new(p, h->socket, d, &c, &err);

	if (r == 0)
		pool_add(p, c, ret);
	else if (err.code && r != -EAGAIN && r != -ETIMEDOUT && r != -EINTR && r != -ECONNRESET) {
		if (wait->ret_lost && (r == -ECONNREFUSED || r == -ENOENT))
			*wait->ret_lost = CALL_UNSENT;
		return fail_errno(r, &err);
	}
	return r < 0 ? fail_connection(p, r, wait) : ELASTICD_STATUS_OK;
}

/* The agent may have said why before it hung up: then its answer is still to be read. */
static int ignore_hangup(int r)
{
	return r == -EPIPE || r == -ECONNRESET ? 0 : r;
}

/* Connects, and sends Hello and b. */
static enum elasticd_status call_on_new(struct elasticd *h, struct pool *p,
	const struct varlink_buffer *b, const struct wait *wait, struct deadline *d,
	struct conn **ret)
{
	_cleanup_(varlink_buffer_fini) struct varlink_buffer both = { .data = NULL };
	enum elasticd_status status = call_connect(h, p, wait, d, ret);
	int r;

	if (status)
		return status;
	/* elasticd has no Hello, and a private agent needs none. */
	(*ret)->greeted = h->outside || h->by_hand;
	r = (*ret)->greeted ? 0 : hello_message(h, &both);
	if (r == 0 && varlink_buffer_len(b))
		r = varlink_buffer_append(&both, b->data + b->begin, varlink_buffer_len(b));
	if (r == 0)
		r = ignore_hangup(conn_send(*ret, &both, d));
	return r < 0 ? fail_connection(p, r, wait) : ELASTICD_STATUS_OK;
}

/*
 * Sends a call. A call that a signal has ended goes on; a call of which an idle connection did not
 * send anything, because it had died meanwhile, goes to a new one. *ret is the connection that the
 * pool had, and becomes the one that the call is on.
 */
static enum elasticd_status call_send(struct elasticd *h, struct pool *p,
	const struct varlink_buffer *b, const struct wait *wait, struct deadline *d, bool halted,
	struct conn **ret)
{
	struct conn *c = *ret;
	int r = 0;

	if (halted) {
		/* It has the end that it had, unless it is made again with another limit. (Calls
		 * without one may have been answered by now.) */
		if (!wait->resumes) {
			if (!wait->prompt || c->end >= 0)
				d->end = c->end;
			d->begun = true;
		}
		r = conn_send_rest(c, b, d);
	} else if (c) {
		r = conn_send(c, b, d);
		/* A call that has gone in part may have been done in part. */
		if (r < 0 && r != -EINTR && r != -ETIMEDOUT && c->unsent == varlink_buffer_len(b)) {
			conn_drop(p, c);
			*ret = c = NULL;
		}
	}
	if (!c)
		return call_on_new(h, p, b, wait, d, ret);
	r = ignore_hangup(r);
	return r < 0 ? fail_connection(p, r, wait) : ELASTICD_STATUS_OK;
}

/* --- receiving */

/* One answer. ret has nothing where reader (NULL: none) has read it. */
static enum elasticd_status receive_one(struct pool *p, struct conn *c, const struct wait *wait,
	struct deadline *d, const struct answer_reader *reader, struct varlink_in *ret)
{
	struct error err;
	char *text;
	size_t len;
	int r = conn_receive(c, d, &text, &len);

	if (r == 0 && reader) {
		r = answer_read(reader, text, len);
		if (r > 0)
			return ELASTICD_STATUS_OK;
	}
	if (r == 0)
		r = varlink_in_parse(text, len, ret, &err);
	if (r < 0)
		return fail_connection(p, r, wait);
	return ret->error ? fail_answer(ret) : ELASTICD_STATUS_OK;
}

/* The same, after the answer to Hello where that is due. */
static enum elasticd_status receive(struct pool *p, struct conn *c, const struct wait *wait,
	struct deadline *d, const struct answer_reader *reader, struct varlink_in *ret)
{
	while (!c->greeted) {
		enum elasticd_status status = receive_one(p, c, wait, d, NULL, ret);

		if (status)
			return status;
		c->greeted = true;
		varlink_in_fini(ret);
	}
	return receive_one(p, c, wait, d, reader, ret);
}

/* --- one call */

/* The bytes by which a call is known when it is made again. */
static struct varlink_buffer call_key(const struct varlink_buffer *b, const struct wait *wait)
{
	struct varlink_buffer key = *b;

	key.end -= wait->tail;
	return key;
}

/* A signal has ended it. */
static enum elasticd_status call_halt(struct pool *p, struct conn *c,
	const struct varlink_buffer *b, const struct wait *wait, const struct deadline *d)
{
	const struct varlink_buffer key = call_key(b, wait);

	/* Nothing of it has gone, or what is left includes the part that may differ: it can begin
	 * again. */
	if (c->unsent >= varlink_buffer_len(b) || (c->unsent && wait->tail)) {
		conn_drop(p, c);
		return ELASTICD_STATUS_INTERRUPTED;
	}
	return pool_halt(p, c, &key, d->end) < 0 ? fail_memory() : ELASTICD_STATUS_INTERRUPTED;
}

/* On the connection that the pool had, if any; leaves the pool. */
static enum elasticd_status call_in_pool(struct elasticd *h, struct pool *p,
	const struct varlink_buffer *b, const struct wait *wait, bool halted, struct conn *c,
	const struct answer_reader *reader, json_t **ret)
{
	_cleanup_(varlink_in_fini) struct varlink_in in = { .message = NULL };
	struct deadline d = deadline_begin(h, *wait);
	enum elasticd_status status = call_send(h, p, b, wait, &d, halted, &c);

	if (!status)
		status = receive(p, c, wait, &d, reader, &in);
	if (!status && ret)
		*ret = json_incref(in.parameters);
	/* After any answer, also an error, the connection can be used again. */
	if (c && c->greeted && (!status || in.message)) {
		pool_end(p, c);
		return status;
	}
	if (status == ELASTICD_STATUS_INTERRUPTED && (wait->prompt || wait->resumes) && c)
		status = call_halt(p, c, b, wait, &d);
	else
		conn_drop(p, c);
	pool_leave(p);
	return status;
}

static enum elasticd_status call_by_pool(struct elasticd *h, const char *method, struct params *a,
	const struct wait *wait, const struct answer_reader *reader, json_t **ret)
{
	_cleanup_(varlink_buffer_fini) struct varlink_buffer b = { .data = NULL };
	enum elasticd_status status;
	struct varlink_buffer key;
	struct conn *c;
	struct pool *p;
	bool halted;

	if (params_message(a, method, false, &b) < 0)
		return fail_memory();
	if (h->outside && !strchr(method, '.'))
		return fail(ELASTICD_STATUS_FAILED_PRECONDITION,
			"this handle is not a worker's: it has only the queues of a job");
	key = call_key(&b, wait);
	p = pool_of(h);
	if (!p)
		return fail_memory();
	status = write_behind_settle(h, p, *wait);
	if (status)
		return status;
	if (!pool_begin(p, wait->prompt || wait->resumes ? &key : NULL, NULL, &c, &halted))
		return fail_closed();
	return call_in_pool(h, p, &b, wait, halted, c, reader, ret);
}

enum elasticd_status call_make(
	struct elasticd *h, const char *method, struct params *a, struct wait wait, json_t **ret)
{
	return call_by_pool(h, method, a, &wait, ret ? NULL : &answer_nothing, ret);
}

enum elasticd_status call_read(struct elasticd *h, const char *method, struct params *a,
	struct wait wait, const struct answer_reader *reader)
{
	_cleanup_json_ json_t *answer = NULL;
	_cleanup_free_ char *text = NULL;
	enum elasticd_status status = call_by_pool(h, method, a, &wait, reader, &answer);
	int r = 0;

	if (!status && answer)
		r = answer_read_parsed(reader, answer, &text);
	return r < 0 ? fail_reading(r) : status;
}

enum elasticd_status call_pause(struct elasticd *h, int ms, bool interruptible)
{
	const struct timespec pause = { .tv_nsec = (long)ms * 1000000 };
	struct pool *p = pool_of(h);

	if (!p)
		return fail_memory();
	if (nanosleep(&pause, NULL) < 0 && (interruptible || atomic_load(&h->interruptible)) &&
		signal_interrupts())
		return fail_interrupted();
	return pool_closing(p) ? fail_closed() : ELASTICD_STATUS_OK;
}

/* --- on a connection that the caller keeps */

static enum elasticd_status call_on_send(struct elasticd *h, struct pool *p, struct conn **c,
	const struct varlink_buffer *call, bool again, const struct wait *wait, struct deadline *d)
{
	int r;

	if (!*c)
		return call_on_new(h, p, call, wait, d, c);
	r = ignore_hangup(again ? conn_send_rest(*c, call, d) : conn_send(*c, call, d));
	return r < 0 ? fail_connection(p, r, wait) : ELASTICD_STATUS_OK;
}

/* Whether a call without an answer may have one later. Hello must have gone as a whole. */
static bool call_can_go_on(
	const struct conn *c, enum elasticd_status r, const struct varlink_buffer *call, bool again)
{
	if (r == ELASTICD_STATUS_INTERRUPTED)
		return c->unsent <= varlink_buffer_len(call);
	return again && r == ELASTICD_STATUS_DEADLINE_EXCEEDED && !c->unsent;
}

/* Waits until earlier writes are answered. Where that fails, nothing of the call has been sent. */
static enum elasticd_status call_on_settle(struct elasticd *h, struct pool *p, struct conn **c,
	const struct varlink_buffer *call, bool again, struct wait wait)
{
	enum elasticd_status status;

	if (*c && !again)
		(*c)->unsent = varlink_buffer_len(call);
	wait.timeout_ms = -1;
	status = write_behind_settle(h, p, wait);
	if (status && status != ELASTICD_STATUS_INTERRUPTED)
		conn_drop_at(p, c);
	return status;
}

enum elasticd_status call_on(struct elasticd *h, struct pool *p, struct conn **c,
	const struct varlink_buffer *call, bool again, struct wait wait,
	const struct answer_reader *reader, struct varlink_in *ret)
{
	struct deadline d = deadline_begin(h, wait);
	enum elasticd_status status = ELASTICD_STATUS_OK;

	*ret = (struct varlink_in){ .message = NULL };
	if (pool_has_writes(p))
		status = call_on_settle(h, p, c, call, again, wait);
	if (status)
		return status;
	if (!pool_enter(p))
		return fail_closed();
	status = call_on_send(h, p, c, call, again, &wait, &d);
	if (!status)
		status = receive(p, *c, &wait, &d, reader, ret);
	if (status && !ret->message && *c && !call_can_go_on(*c, status, call, again))
		conn_drop_at(p, c);
	pool_leave(p);
	return status;
}

/* --- several calls in one write */

/* A status that is not OK is of no answer. */
static enum elasticd_status calls_receive(struct pool *p, struct conn *c, const struct wait *wait,
	struct deadline *d, struct calls *calls)
{
	_cleanup_(varlink_in_fini) struct varlink_in in = { .message = NULL };
	_cleanup_free_ char *text = NULL;
	const struct answer_reader reader = calls->reader(calls);
	enum elasticd_status status = receive(p, c, wait, d, &reader, &in);
	int r = 0;

	if (!c->greeted || (status && !in.message))
		return status;
	if (!status && in.parameters)
		r = answer_read_parsed(&reader, in.parameters, &text);
	calls->n--;
	calls->answered(calls, r < 0 ? fail_reading(r) : status);
	return ELASTICD_STATUS_OK;
}

static enum elasticd_status calls_halt(struct pool *p, struct conn *c, const struct calls *calls,
	const struct wait *wait, const struct deadline *d)
{
	c->owner = calls->owner;
	c->n_calls = calls->n;
	return call_halt(p, c, &calls->buffer, wait, d);
}

/* The calls that a signal has ended take the place of those that the caller has put together. */
static void calls_resume(struct calls *calls, struct conn *c)
{
	varlink_buffer_fini(&calls->buffer);
	calls->buffer = c->call;
	c->call = (struct varlink_buffer){ .data = NULL };
	calls->n = c->n_calls;
}

enum elasticd_status call_many(struct elasticd *h, struct calls *calls, struct wait wait)
{
	struct deadline d = deadline_begin(h, wait);
	enum elasticd_status status;
	struct pool *p = pool_of(h);
	struct conn *c;
	bool halted;

	if (!p)
		return fail_memory();
	status = write_behind_settle(h, p, wait);
	if (status)
		return status;
	if (!pool_begin(p, NULL, calls->owner, &c, &halted))
		return fail_closed();
	if (halted)
		calls_resume(calls, c);
	status = call_send(h, p, &calls->buffer, &wait, &d, halted, &c);
	while (!status && calls->n)
		status = calls_receive(p, c, &wait, &d, calls);
	if (!status) {
		pool_end(p, c);
		return status;
	}
	if (status == ELASTICD_STATUS_INTERRUPTED && c)
		status = calls_halt(p, c, calls, &wait, &d);
	else
		conn_drop(p, c);
	pool_leave(p);
	return status;
}

/* --- streams */

static enum elasticd_status stream_begin(struct elasticd *h, struct pool *p,
	const struct varlink_buffer *b, struct conn **ret, json_t **ret_first)
{
	_cleanup_(varlink_in_fini) struct varlink_in in = { .message = NULL };
	struct wait wait = WAIT_PROMPT;
	struct deadline d = deadline_begin(h, wait);
	struct conn *c = NULL;
	enum elasticd_status status = call_on_new(h, p, b, &wait, &d, &c);

	if (!status)
		status = receive(p, c, &wait, &d, NULL, &in);
	if (!status) {
		*ret = c;
		*ret_first = json_incref(in.parameters);
	} else {
		conn_drop(p, c);
	}
	return status;
}

enum elasticd_status call_stream(struct elasticd *h, struct pool *p, const char *method,
	struct params *a, struct conn **ret, json_t **ret_first)
{
	_cleanup_(varlink_buffer_fini) struct varlink_buffer b = { .data = NULL };
	enum elasticd_status status;

	if (params_message(a, method, true, &b) < 0)
		return fail_memory();
	status = write_behind_settle(h, p, WAIT_PROMPT);
	if (status)
		return status;
	if (!pool_enter(p))
		return fail_closed();
	status = stream_begin(h, p, &b, ret, ret_first);
	pool_leave(p);
	return status;
}

enum elasticd_status call_stream_next(struct elasticd *h, struct pool *p, struct conn *c,
	struct wait wait, json_t **ret, bool *ret_last)
{
	_cleanup_(varlink_in_fini) struct varlink_in in = { .message = NULL };
	struct deadline d = deadline_begin(h, wait);
	enum elasticd_status status;

	if (!pool_enter(p))
		return fail_closed();
	status = receive(p, c, &wait, &d, NULL, &in);
	if (!status) {
		*ret = json_incref(in.parameters);
		*ret_last = !in.continues;
	}
	pool_leave(p);
	return status;
}
