/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sharing/calls_out.h"
#include "common/base/cleanup.h"
#include "common/base/log.h"
#include "common/text/json.h"
#include "common/text/json_writer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A call that waits for its answer. */
struct call_out {
	TAILQ_ENTRY(call_out) entry;
	struct calls_out_connection *of;
	call_out_fn fn;
	void *arg;
};

struct calls_out_connection {
	LIST_ENTRY(calls_out_connection) entry;
	struct chain_node node;
	struct calls_out *out;
	struct calls_out_connection **owner; /* NULL: for one call */
	int64_t number;
	TAILQ_HEAD(, call_out) calls;
	bool paused; /* the caller does not read */
};

/* --- connections --- */

static int out_send(struct calls_out *o, const char *method, json_t *body)
{
	size_t len;
	_cleanup_free_ char *text = json_dump_text(body, &len);

	json_decref(body);
	return text ? o->way.send(o->way.arg, method, text, len) : -ENOMEM;
}

static void out_hang_up(struct calls_out_connection *c, bool shut)
{
	json_t *body = json_object();
	int r;

	json_put_int(body, "connection", c->number);
	if (shut)
		json_put(body, "shut", json_true());
	r = out_send(c->out, "Hangup", body);
	if (r < 0 && r != -ECONNRESET)
		log_error("another host does not learn that a connection has ended: %s",
			strerror(-r));
}

static void connection_free(struct calls_out_connection *c)
{
	struct call_out *x;

	while ((x = TAILQ_FIRST(&c->calls))) {
		TAILQ_REMOVE(&c->calls, x, entry);
		free(x);
	}
	LIST_REMOVE(c, entry);
	chain_remove(&c->out->by_number, &c->node);
	if (c->owner)
		*c->owner = NULL;
	free(c);
}

static uint64_t hash_of(int64_t number)
{
	return chain_hash(&number, sizeof(number));
}

struct calls_out_connection *calls_out_open(
	struct calls_out *o, struct calls_out_connection **owner)
{
	struct calls_out_connection *c = calloc(1, sizeof(*c));

	if (!c || chain_reserve(&o->by_number) < 0) {
		free(c);
		return NULL;
	}
	o->last++;
	c->out = o;
	c->owner = owner;
	c->number = o->negative ? -o->last : o->last;
	TAILQ_INIT(&c->calls);
	LIST_INSERT_HEAD(&o->connections, c, entry);
	chain_put(&o->by_number, &c->node, hash_of(c->number));
	return c;
}

void calls_out_shut(struct calls_out_connection *c)
{
	out_hang_up(c, true);
}

void calls_out_close(struct calls_out_connection *c)
{
	out_hang_up(c, false);
	connection_free(c);
}

/* --- calls --- */

static void call_over(struct call_out *x)
{
	struct calls_out_connection *c = x->of;

	TAILQ_REMOVE(&c->calls, x, entry);
	free(x);
	if (!c->owner)
		calls_out_close(c);
}

void calls_out_drop(struct call_out *x)
{
	call_over(x);
}

/* The message Call, as text. */
static char *call_text(
	const struct calls_out_connection *c, const struct calls_out_message *m, size_t *ret_len)
{
	_cleanup_(json_writer_fini) struct json_writer t = { .data = NULL };
	size_t len;
	_cleanup_free_ char *parameters = json_dump_text(m->parameters, &len);

	if (!parameters)
		return NULL;
	json_write_format(&t,
		"{\"round\":%" PRIu64 ",\"connection\":%" PRId64 ",\"worker\":", m->round,
		c->number);
	if (json_write_string(&t, m->worker, strlen(m->worker)) < 0)
		return NULL;
	json_write_format(&t, ",\"message\":{\"method\":\"%s.%s\",%s\"parameters\":", m->interface,
		m->method,
		m->more	    ? "\"more\":true,"
		: m->oneway ? "\"oneway\":true,"
			    : "");
	json_write(&t, parameters, len);
	json_write(&t, "}}", 2);
	*ret_len = t.len;
	return t.failed ? NULL : TAKE_PTR(t.data);
}

int calls_out_call(struct calls_out_connection *c, const struct calls_out_message *m,
	call_out_fn fn, void *arg, struct call_out **ret)
{
	struct call_out *x = calloc(1, sizeof(*x));
	size_t len = 0;
	_cleanup_free_ char *text = x ? call_text(c, m, &len) : NULL;
	int r = text ? c->out->way.send(c->out->way.arg, "Call", text, len) : -ENOMEM;

	if (r < 0) {
		free(x);
		if (!c->owner)
			connection_free(c);
		return r;
	}
	*x = (struct call_out){ .of = c, .fn = fn, .arg = arg };
	TAILQ_INSERT_TAIL(&c->calls, x, entry);
	if (ret)
		*ret = x;
	if (m->oneway)
		call_over(x);
	return 0;
}

void calls_out_flow(struct call_out *x, bool paused)
{
	struct calls_out_connection *c = x->of;

	c->paused = paused;
	(void)out_send(c->out, "Flow",
		json_pack("{s:I, s:b}", "connection", (json_int_t)c->number, "paused", paused));
}

/* --- calls of a server here --- */

struct forwarded {
	struct varlink_call *call;
	struct call_out *out;
	loop_fn over;
	void *arg;
	loop_fn succeeded;
	void *succeeded_arg;
};

static void forwarded_over(struct forwarded *f)
{
	if (f->over)
		f->over(f->arg);
	free(f);
}

static void forwarded_room(void *arg)
{
	struct forwarded *f = arg;

	calls_out_flow(f->out, false);
}

static void forwarded_answer(void *arg, const char *error, json_t *p, bool continues)
{
	struct forwarded *f = arg;
	struct varlink_call *call = f->call;

	if (continues) {
		(void)varlink_notify(call, json_incref(p));
		if (!f->out->of->paused && varlink_call_congested(call, forwarded_room, f))
			calls_out_flow(f->out, true);
		return;
	}
	if (error)
		(void)varlink_error(call, error, json_incref(p));
	else
		(void)varlink_reply(call, json_incref(p));
	if (!error && f->succeeded)
		f->succeeded(f->succeeded_arg);
	forwarded_over(f);
}

static void forwarded_gone(void *arg)
{
	struct forwarded *f = arg;

	call_over(f->out);
	forwarded_over(f);
}

int calls_out_forward(struct calls_out_connection *c, const struct calls_out_message *m,
	struct varlink_call *call, loop_fn over, void *arg)
{
	struct forwarded *f = calloc(1, sizeof(*f));
	int r = f ? calls_out_call(c, m, forwarded_answer, f, &f->out) : -ENOMEM;

	if (!f && !c->owner)
		connection_free(c);
	if (r < 0) {
		free(f);
		return r;
	}
	f->succeeded = m->succeeded;
	f->succeeded_arg = m->arg;
	f->over = over;
	f->arg = arg;
	if (m->oneway) {
		forwarded_over(f);
		return varlink_reply(call, NULL);
	}
	f->call = call;
	varlink_call_on_gone(call, forwarded_gone, f);
	return 0;
}

/* --- answers --- */

static void answer_received(struct calls_out_connection *c, const json_t *message)
{
	struct call_out *x = TAILQ_FIRST(&c->calls);
	const char *error = json_get_string(message, "error", NULL);
	json_t *p = json_get_object(message, "parameters");
	call_out_fn fn = x ? x->fn : NULL;
	void *arg = x ? x->arg : NULL;

	if (!x)
		return;
	if (json_get_bool(message, "continues", false)) {
		fn(arg, NULL, p, true);
		return;
	}
	if (c->paused) /* the next stream of this connection asks again */
		calls_out_flow(x, false);
	call_over(x); /* frees c, if it is for one call */
	fn(arg, error, p, false);
}

/* The other side serves the connection no more; its owner's next call begins another one. */
static void connection_ended(struct calls_out_connection *c, const char *why)
{
	_cleanup_json_ json_t *p = json_pack("{s:s}", "message", why);
	bool own = c->owner;
	struct call_out *x;

	while ((x = TAILQ_FIRST(&c->calls))) {
		call_out_fn fn = x->fn;
		void *arg = x->arg;

		call_over(x);
		fn(arg, "Unavailable", p, false);
		if (!own)
			return;
	}
	calls_out_close(c);
}

static struct calls_out_connection *connection_numbered(const struct calls_out *o, int64_t number)
{
	struct chain_node *n = chain_first(&o->by_number, hash_of(number));

	for (; n; n = chain_next(n)) {
		struct calls_out_connection *c =
			(void *)((char *)n - offsetof(struct calls_out_connection, node));

		if (c->number == number)
			return c;
	}
	return NULL;
}

void calls_out_received(struct calls_out *o, const char *method, const json_t *p)
{
	struct calls_out_connection *c = connection_numbered(o, json_get_int(p, "connection", 0));

	if (!c)
		return; /* it has ended here meanwhile */
	if (!strcmp(method, "Answer"))
		answer_received(c, json_get_object(p, "message"));
	else if (!json_get_bool(p, "shut", false))
		connection_ended(c, "the other host serves this connection no more");
}

void calls_out_cut(struct calls_out *o, const char *why)
{
	while (!LIST_EMPTY(&o->connections))
		connection_ended(LIST_FIRST(&o->connections), why);
}

void calls_out_init(struct calls_out *o, const struct calls_way *way, bool negative)
{
	*o = (struct calls_out){ .way = *way, .negative = negative };
	LIST_INIT(&o->connections);
}

void calls_out_fini(struct calls_out *o)
{
	chain_fini(&o->by_number);
}
