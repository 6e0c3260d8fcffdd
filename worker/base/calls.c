/* SPDX-License-Identifier: Apache-2.0 */
/* Calls, one after the other on a connection, and streams, which have theirs alone. */
#include "worker/base/pool.h"

#include "common/text/json.h"

#include <errno.h>
#include <string.h>
#include <time.h>

static const struct taker no_taker;

/* What became of a connection. */
static int fail_connection(struct pool *p, int r, const struct wait *wait)
{
	if (pool_closing(p))
		return fail(ELASTICD_CANCELLED, "the handle was closed");
	if (r == -EINTR)
		return fail(ELASTICD_INTERRUPTED, "a signal came");
	if (r == -ETIMEDOUT && wait->prompt)
		return fail(ELASTICD_UNAVAILABLE, "the agent does not answer");
	if (r == -ETIMEDOUT && wait->margin_ms)
		return fail(ELASTICD_DEADLINE_EXCEEDED,
			"the agent has not answered, %d ms after the time limit of %d ms",
			wait->margin_ms, wait->timeout_ms);
	if (r == -ETIMEDOUT)
		return fail(
			ELASTICD_DEADLINE_EXCEEDED, "nothing came within %d ms", wait->timeout_ms);
	if (r == -ENOMEM)
		return fail_memory();
	if (r == -EOWNERDEAD)
		return fail(ELASTICD_UNAVAILABLE,
			"the queue is gone with the agent that had it: all of it was cancelled");
	if (r == -EDEADLK)
		return fail_single();
	if (r == -EBADMSG || r == -EMSGSIZE)
		return fail(ELASTICD_INTERNAL, "the agent's answer is not understood");
	if (wait->ret_lost)
		*wait->ret_lost = CALL_LOST;
	return fail(ELASTICD_UNAVAILABLE, "the agent has closed the connection: it is gone");
}

static int build_hello(struct elasticd *h, struct varlink_buffer *b)
{
	struct args a = ARGS_EMPTY;

	args_text(&a, "token", h->token_text);
	return args_message(&a, "Hello", false, b);
}

/* A new connection, busy. Returns a status. */
static int conn_open(struct elasticd *h, struct pool *p, const struct wait *wait,
	const struct deadline *d, struct conn **ret)
{
	struct error err = { 0 };
	int r = conn_new(p, h->socket, d, ret, &err);

	if (r == 0)
		pool_add(p, *ret);
	else if (err.code && r != -EAGAIN && r != -ETIMEDOUT && r != -EINTR && r != -ECONNRESET) {
		if (wait->ret_lost && (r == -ECONNREFUSED || r == -ENOENT))
			*wait->ret_lost = CALL_UNSENT;
		return fail_errno(r, &err);
	}
	return r < 0 ? fail_connection(p, r, wait) : 0;
}

/* Connects anew and sends Hello and what is in b. */
static int call_on_new(struct elasticd *h, struct pool *p, const struct varlink_buffer *b,
	const struct wait *wait, struct deadline *d, struct conn **ret)
{
	_cleanup_(varlink_buffer_fini) struct varlink_buffer both = { .data = NULL };
	int r = conn_open(h, p, wait, d, ret);

	if (r)
		return r;
	/* On the control socket nobody is greeted, and one's own agent knows who it is. */
	(*ret)->greeted = h->control || h->alone;
	r = (*ret)->greeted ? 0 : build_hello(h, &both);
	if (r == 0 && varlink_buffer_len(b))
		r = varlink_buffer_append(&both, b->data + b->begin, varlink_buffer_len(b));
	if (r == 0)
		r = conn_send(*ret, &both, d);
	/* It may have said why before it hung up. */
	if (r == -EPIPE || r == -ECONNRESET)
		r = 0;
	return r < 0 ? fail_connection(p, r, wait) : 0;
}

/* One answer, in the taker's way where it can be. A status; ret has nothing where it was taken. */
static int answer_receive(struct pool *p, struct conn *c, const struct wait *wait,
	struct deadline *d, const struct taker *taker, struct varlink_in *ret)
{
	struct error err;
	char *text;
	size_t len;
	int r = conn_receive(c, d, &text, &len);

	if (r == 0 && taker->take) {
		r = taker->take(text, len, taker->arg);
		if (r > 0)
			return 0;
	}
	if (r == 0)
		r = varlink_in_parse(text, len, ret, &err);
	if (r < 0)
		return fail_connection(p, r, wait);
	return ret->error ? fail_answer(ret) : 0;
}

/* Receives, the answer to Hello first where it is due. */
static int call_receive(struct pool *p, struct conn *c, const struct wait *wait, struct deadline *d,
	const struct taker *taker, struct varlink_in *ret)
{
	while (!c->greeted) {
		int r = answer_receive(p, c, wait, d, &no_taker, ret);

		if (r)
			return r;
		c->greeted = true;
		varlink_in_fini(ret);
	}
	return answer_receive(p, c, wait, d, taker, ret);
}

/* Sends it: what a signal has ended goes on; what an idle connection that has died meanwhile did
 * not take goes to a new one. ret has the connection that the pool had, and gets the one that it is
 * sent on. A status. */
static int call_begin(struct elasticd *h, struct pool *p, const struct varlink_buffer *b,
	const struct wait *wait, struct deadline *d, bool halted, struct conn **ret)
{
	struct conn *c = *ret;
	int r = 0;

	if (halted) {
		/* Of several, those that had no limit may be answered by now; one that resumes has
		 * the time that it is made again with. */
		if (!wait->resumes) {
			if (!wait->prompt || c->end >= 0)
				d->end = c->end;
			d->begun = true;
		}
		r = conn_send_rest(c, b, d);
	} else if (c) {
		r = conn_send(c, b, d);
		/* What has gone in part may have been done in part. */
		if (r < 0 && r != -EINTR && r != -ETIMEDOUT && c->unsent == varlink_buffer_len(b)) {
			conn_drop(p, c);
			*ret = c = NULL;
		}
	}
	if (!c)
		return call_on_new(h, p, b, wait, d, ret);
	/* It may have said why before it hung up. */
	if (r == -EPIPE || r == -ECONNRESET)
		r = 0;
	return r < 0 ? fail_connection(p, r, wait) : 0;
}

/* What it is known by when it is made again. */
static struct varlink_buffer call_key(const struct varlink_buffer *b, const struct wait *wait)
{
	struct varlink_buffer key = *b;

	key.end -= wait->tail;
	return key;
}

/* A signal has ended it. */
static int call_halt(struct pool *p, struct conn *c, const struct varlink_buffer *b,
	const struct wait *wait, const struct deadline *d)
{
	const struct varlink_buffer key = call_key(b, wait);

	/* Nothing of it has gone, or what is left may be another end: it can begin anew. */
	if (c->unsent >= varlink_buffer_len(b) || (c->unsent && wait->tail)) {
		conn_drop(p, c);
		return ELASTICD_INTERRUPTED;
	}
	return pool_halt(p, c, &key, d->end) < 0 ? fail_memory() : ELASTICD_INTERRUPTED;
}

/* On the connection that the pool had, if any; leaves the pool. */
static int call_in(struct elasticd *h, struct pool *p, const struct varlink_buffer *b,
	const struct wait *wait, bool halted, struct conn *c, const struct taker *taker,
	json_t **ret)
{
	_cleanup_(varlink_in_fini) struct varlink_in in = { .message = NULL };
	struct deadline d = deadline_of(h, *wait);
	int r = call_begin(h, p, b, wait, &d, halted, &c);

	if (r == 0)
		r = call_receive(p, c, wait, &d, taker, &in);
	if (r == 0 && ret)
		*ret = json_incref(in.parameters);
	/* An answer with an error was an answer: the connection is as good as before. */
	if (c && c->greeted && (r == 0 || in.message)) {
		pool_end(p, c);
		return r;
	}
	if (r == ELASTICD_INTERRUPTED && (wait->prompt || wait->resumes) && c)
		r = call_halt(p, c, b, wait, &d);
	else
		conn_drop(p, c);
	pool_leave(p);
	return r;
}

static int call(struct elasticd *h, const char *method, struct args *a, struct wait wait,
	const struct taker *taker, json_t **ret)
{
	_cleanup_(varlink_buffer_fini) struct varlink_buffer b = { .data = NULL };
	struct varlink_buffer key;
	struct conn *c;
	struct pool *p;
	bool halted;
	int r;

	if (args_message(a, method, false, &b) < 0)
		return fail_memory();
	if (h->control && !strchr(method, '.'))
		return fail(ELASTICD_FAILED_PRECONDITION,
			"this handle is of no task: it has the queues of a job alone");
	key = call_key(&b, &wait);
	p = pool_of(h);
	if (!p)
		return fail_memory();
	r = pool_writes(p) ? writer_settle(h, p, wait) : 0;
	if (r)
		return r;
	if (!pool_begin(p, wait.prompt || wait.resumes ? &key : NULL, NULL, &c, &halted))
		return fail(ELASTICD_CANCELLED, "the handle was closed");
	return call_in(h, p, &b, &wait, halted, c, taker, ret);
}

int remote_pause(struct elasticd *h, int ms, bool interruptible)
{
	const struct timespec pause = { .tv_nsec = (long)ms * 1000000 };
	struct pool *p = pool_of(h);

	if (!p)
		return fail_memory();
	if (nanosleep(&pause, NULL) < 0 && (interruptible || atomic_load(&h->interruptible)) &&
		signal_interrupts())
		return fail(ELASTICD_INTERRUPTED, "a signal came");
	return pool_closing(p) ? fail(ELASTICD_CANCELLED, "the handle was closed") : 0;
}

int remote_call(
	struct elasticd *h, const char *method, struct args *a, struct wait wait, json_t **ret)
{
	const struct taker taker = { .take = ret ? NULL : answer_nothing };

	return call(h, method, a, wait, &taker, ret);
}

int remote_ask(struct elasticd *h, const char *method, struct args *a, struct wait wait,
	const struct taker *taker, json_t **ret)
{
	*ret = NULL;
	return call(h, method, a, wait, taker, ret);
}

/* Sends it; one that nobody waits for can go to a new connection where the old one has died. */
static int call_on_begin(struct elasticd *h, struct pool *p, struct conn **c,
	const struct varlink_buffer *call, bool again, const struct wait *wait, struct deadline *d)
{
	int r;

	if (!*c)
		return call_on_new(h, p, call, wait, d, c);
	r = again ? conn_send_rest(*c, call, d) : conn_send(*c, call, d);
	/* It may have said why before it hung up. */
	if (r == -EPIPE || r == -ECONNRESET)
		r = 0;
	return r < 0 ? fail_connection(p, r, wait) : 0;
}

/* Whether what has no answer yet may have one later. A greeting goes as a whole, or not at all. */
static bool call_goes_on(const struct conn *c, int r, const struct varlink_buffer *call, bool again)
{
	if (r == ELASTICD_INTERRUPTED)
		return c->unsent <= varlink_buffer_len(call);
	return again && r == ELASTICD_DEADLINE_EXCEEDED && !c->unsent;
}

/* Waits for writes first. One that has ended here has not begun: all of it is to be sent. */
static int call_on_settle(struct elasticd *h, struct pool *p, struct conn **c,
	const struct varlink_buffer *call, bool again, struct wait wait)
{
	int r;

	if (*c && !again)
		(*c)->unsent = varlink_buffer_len(call);
	wait.timeout_ms = -1;
	r = writer_settle(h, p, wait);
	if (r && r != ELASTICD_INTERRUPTED) {
		conn_drop(p, *c);
		*c = NULL;
	}
	return r;
}

int remote_call_on(struct elasticd *h, struct pool *p, struct conn **c,
	const struct varlink_buffer *call, bool again, struct wait wait, const struct taker *taker,
	struct varlink_in *ret)
{
	struct deadline d = deadline_of(h, wait);
	int r;

	*ret = (struct varlink_in){ .message = NULL };
	r = pool_writes(p) ? call_on_settle(h, p, c, call, again, wait) : 0;
	if (r)
		return r;
	if (!pool_enter(p))
		return fail(ELASTICD_CANCELLED, "the handle was closed");
	r = call_on_begin(h, p, c, call, again, &wait, &d);
	if (r == 0)
		r = call_receive(p, *c, &wait, &d, taker, ret);
	if (r && !ret->message && *c && !call_goes_on(*c, r, call, again)) {
		conn_drop(p, *c);
		*c = NULL;
	}
	pool_leave(p);
	return r;
}

/* --- several calls in one write */

/* A status that is no answer's. */
static int calls_receive(struct pool *p, struct conn *c, const struct wait *wait,
	struct deadline *d, struct calls *calls)
{
	_cleanup_(varlink_in_fini) struct varlink_in in = { .message = NULL };
	const struct taker taker = calls->taker(calls);
	int r = call_receive(p, c, wait, d, &taker, &in);

	if (!c->greeted || (r && !in.message))
		return r;
	calls->n--;
	calls->answered(calls, r, in.parameters);
	return 0;
}

static int calls_halt(struct pool *p, struct conn *c, const struct calls *calls,
	const struct wait *wait, const struct deadline *d)
{
	c->who = calls->who;
	c->n_calls = calls->n;
	return call_halt(p, c, &calls->buffer, wait, d);
}

int remote_calls(struct elasticd *h, struct calls *calls, struct wait wait)
{
	struct deadline d = deadline_of(h, wait);
	struct pool *p = pool_of(h);
	struct conn *c;
	bool halted;
	int r;

	if (!p)
		return fail_memory();
	r = pool_writes(p) ? writer_settle(h, p, wait) : 0;
	if (r)
		return r;
	if (!pool_begin(p, NULL, calls->who, &c, &halted))
		return fail(ELASTICD_CANCELLED, "the handle was closed");
	if (halted) {
		varlink_buffer_fini(&calls->buffer);
		calls->buffer = c->call;
		c->call = (struct varlink_buffer){ .data = NULL };
		calls->n = c->n_calls;
	}
	r = call_begin(h, p, &calls->buffer, &wait, &d, halted, &c);
	while (r == 0 && calls->n)
		r = calls_receive(p, c, &wait, &d, calls);
	if (r == 0) {
		pool_end(p, c);
		return 0;
	}
	if (r == ELASTICD_INTERRUPTED && c)
		r = calls_halt(p, c, calls, &wait, &d);
	else
		conn_drop(p, c);
	pool_leave(p);
	return r;
}

/* --- streams */

static int stream_open(struct elasticd *h, struct pool *p, const struct varlink_buffer *b,
	struct conn **ret, json_t **ret_first)
{
	_cleanup_(varlink_in_fini) struct varlink_in in = { .message = NULL };
	struct wait wait = WAIT_PROMPT;
	struct deadline d = deadline_of(h, wait);
	struct conn *c = NULL;
	int r = call_on_new(h, p, b, &wait, &d, &c);

	if (r == 0)
		r = call_receive(p, c, &wait, &d, &no_taker, &in);
	if (r == 0) {
		*ret = c;
		*ret_first = json_incref(in.parameters);
	} else {
		conn_drop(p, c);
	}
	return r;
}

int remote_stream(struct elasticd *h, struct pool *p, const char *method, struct args *a,
	struct conn **ret, json_t **ret_first)
{
	_cleanup_(varlink_buffer_fini) struct varlink_buffer b = { .data = NULL };
	int r = args_message(a, method, true, &b);

	if (r < 0)
		return fail_memory();
	r = pool_writes(p) ? writer_settle(h, p, WAIT_PROMPT) : 0;
	if (r)
		return r;
	if (!pool_enter(p))
		return fail(ELASTICD_CANCELLED, "the handle was closed");
	r = stream_open(h, p, &b, ret, ret_first);
	pool_leave(p);
	return r;
}

int remote_stream_next(struct elasticd *h, struct pool *p, struct conn *c, struct wait wait,
	json_t **ret, bool *ret_last)
{
	_cleanup_(varlink_in_fini) struct varlink_in in = { .message = NULL };
	struct deadline d = deadline_of(h, wait);
	int r;

	if (!pool_enter(p))
		return fail(ELASTICD_CANCELLED, "the handle was closed");
	r = call_receive(p, c, &wait, &d, &no_taker, &in);
	if (r == 0) {
		*ret = json_incref(in.parameters);
		*ret_last = !in.continues;
	}
	pool_leave(p);
	return r;
}
