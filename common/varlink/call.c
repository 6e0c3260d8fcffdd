/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first open call of a connection writes into the connection's output; later ones hold their
 * answers until it is their turn. An answered call that is not the first stays, unknown to its
 * handler, until those before it are answered.
 */
#include "common/text/json.h"
#include "common/varlink/private.h"
#include "common/varlink/validate.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* A connection ends when its unsent output is over this many times the limit of a slow reader, plus
 * one long answer. */
#define FAR_OVER 4

struct varlink_call *varlink_call_new(struct varlink_connection *c)
{
	struct varlink_call *call = calloc(1, sizeof(*call));

	if (!call)
		return NULL;
	call->connection = c;
	call->interface = &c->server->interfaces[VARLINK_OWN];
	TAILQ_INSERT_TAIL(&c->calls, call, entry);
	c->n_calls++;
	return call;
}

static void call_remove(struct varlink_call *call)
{
	struct varlink_connection *c = call->connection;

	TAILQ_REMOVE(&c->calls, call, entry);
	c->n_calls--;
	c->open_bytes -= call->bytes;
	c->held -= varlink_buffer_len(&call->held);
	varlink_buffer_fini(&call->held);
}

static void call_free(struct varlink_call *call)
{
	call_remove(call);
	free(call);
}

void varlink_call_cancel(struct varlink_call *call)
{
	loop_fn gone = call->answered ? NULL : call->gone;
	void *arg = call->gone_arg;

	if (call->dead)
		*call->dead = true;
	call_remove(call);
	if (gone)
		gone(arg);
	free(call);
}

/* Lets the first call, and answered calls right behind it, write what they hold. */
static void write_held_answers(struct varlink_connection *c)
{
	struct varlink_call *call;

	while ((call = TAILQ_FIRST(&c->calls))) {
		size_t n = varlink_buffer_len(&call->held);

		if (varlink_buffer_move(&c->out, &call->held) < 0) {
			varlink_connection_doom(c, "out of memory");
			return;
		}
		c->held -= n;
		c->promises |= n && call->interface->promises;
		if (!call->answered)
			return;
		call_free(call);
	}
}

/* The handler has given its final answer. */
static void end_call(struct varlink_call *call)
{
	struct varlink_connection *c = call->connection;

	if (call->dead)
		*call->dead = true;
	call->dead = NULL;
	call->gone = call->uncongested = NULL;
	call->answered = true;
	write_held_answers(c);
	varlink_connection_touch(c);
}

/* Sends a burst of output before it counts against the peer. */
static void limit_output(struct varlink_connection *c)
{
	size_t limit = c->server->limits.queued_bytes;

	if (varlink_connection_queued(c) > limit)
		varlink_connection_send(c);
	if (varlink_connection_queued(c) > FAR_OVER * limit + c->server->limits.reply_bytes)
		varlink_connection_doom(c, "%zu bytes wait for a peer that does not read",
			varlink_connection_queued(c));
}

/* Takes a long message back that does not fit the limits, behind the bytes that were there before.
 */
static int take_back(
	struct varlink_connection *c, struct varlink_buffer *b, size_t before, bool first)
{
	int r = varlink_limits_count(c);

	if (r == 0)
		return 0;
	if (!first)
		c->held -= varlink_buffer_len(b) - before;
	varlink_buffer_cut(b, before);
	return r;
}

static int put_message(struct varlink_call *call, const struct varlink_out *out)
{
	struct varlink_connection *c = call->connection;
	bool first = TAILQ_FIRST(&c->calls) == call;
	struct varlink_buffer *b = first ? &c->out : &call->held;
	size_t before = varlink_buffer_len(b);
	int r;

	if (c->doomed || c->deaf)
		return -ECONNRESET;
	if (call->oneway)
		return 0;
	r = varlink_buffer_message(b, out, c->server->limits.reply_bytes);
	if (r == 0 && !out->continues) {
		c->open_bytes -= call->bytes;
		call->bytes = 0;
	}
	if (r == 0 && first)
		c->promises |= call->interface->promises;
	else if (r == 0)
		c->held += varlink_buffer_len(b) - before;
	if (r == 0 && !out->error && varlink_buffer_len(b) - before >= VARLINK_LONG_BYTES)
		r = take_back(c, b, before, first);
	limit_output(c);
	varlink_connection_touch(c);
	return r;
}

static const struct varlink_type *declared_type(
	const struct varlink_call *call, const struct varlink_out *out)
{
	const struct varlink_interface *i = call->interface;
	const struct varlink_member *m;
	const char *dot = out->error ? strrchr(out->error, '.') : NULL;

	if (!dot)
		return call->method ? &call->method->out : NULL;
	if (strncmp(out->error, VARLINK_SERVICE, strlen(VARLINK_SERVICE)) == 0)
		i = &call->connection->server->interfaces[VARLINK_STANDARD];
	m = varlink_idl_member(i->idl, VARLINK_ERROR, dot + 1);
	return m ? &m->type : NULL;
}

/* An answer that does not fit the interface is our own mistake, which tests want to see. */
static int check_answer(
	const struct varlink_call *call, const struct varlink_out *out, struct error *err)
{
	const struct varlink_type *t = declared_type(call, out);
	_cleanup_json_ json_t *parameters = NULL;

	if (!t)
		return error_set(err, -EINVAL, "%s is not declared", out->error);
	if (out->text) {
		if (json_parse_object(out->text, out->text_len, &parameters, err) < 0)
			return -EINVAL;
	} else {
		parameters = out->parameters ? json_incref(out->parameters) : json_object();
	}
	return varlink_validate(t, parameters, "parameters", err);
}

static int put_checked(struct varlink_call *call, const struct varlink_out *out)
{
	struct error err; /* large: not cleared unless it is used */

	if (!call->connection->server->check_replies)
		return put_message(call, out);
	err = (struct error){ 0 };
	if (check_answer(call, out, &err) == 0)
		return put_message(call, out);
	error_prefix(&err, "the answer to %s does not fit the interface",
		call->method ? call->method->name : "a call");
	varlink_error_failed(call, EPROTO, err.text);
	return -EPROTO;
}

/* Appends an error. Completes a name without a dot by the call's interface. */
static int put_error(struct varlink_call *call, const char *name, json_t *parameters, bool check)
{
	const char *own = call->interface->idl->name;
	_cleanup_free_ char *full = NULL;
	struct varlink_out out = { .error = name, .parameters = parameters };

	if (!strchr(name, '.')) {
		if (asprintf(&full, "%s.%s", own, name) < 0) {
			full = NULL;
			return -ENOMEM;
		}
		out.error = full;
	}
	return check ? put_checked(call, &out) : put_message(call, &out);
}

int varlink_error_failed(struct varlink_call *call, int error, const char *message)
{
	_cleanup_json_ json_t *p = json_object();
	struct varlink_connection *c = call->connection;
	int r = json_put_string(p, "message", message);

	if (r == 0)
		r = json_put_int(p, "errno", error);
	if (r == 0)
		r = put_error(call, "Internal", p, false);
	if (r < 0 && r != -ECONNRESET)
		varlink_connection_doom(c, "cannot answer: %s", strerror(-r));
	end_call(call);
	return r;
}

json_t *varlink_limit_error(const char *what, int64_t limit)
{
	_cleanup_free_ char *text = NULL;
	json_t *p = json_object();

	if (asprintf(&text, "the limit of %" PRId64 " %s is reached", limit, what) < 0)
		text = NULL;
	else
		json_put_string(p, "message", text);
	json_put_int(p, "limit", limit);
	return p;
}

/* Ends the call after its final answer was appended, or could not be. */
static int finish_call(struct varlink_call *call, int r)
{
	struct varlink_connection *c = call->connection;

	if (r == -EPROTO)
		return r; /* answered before */
	if (r == -EMSGSIZE) {
		char text[128];

		snprintf(text, sizeof(text), "the answer is longer than the limit of %zu bytes",
			c->server->limits.reply_bytes);
		varlink_error_failed(call, EMSGSIZE, text);
		return r;
	}
	if (r == -EDQUOT || r == -ENOBUFS) {
		int64_t limit;
		const char *what = varlink_limits_what(c->server, r, &limit);

		varlink_error_limit(call, what, limit);
		return r;
	}
	/* Without this answer the peer would take the next one for it. */
	if (r < 0 && r != -ECONNRESET)
		varlink_connection_doom(c, "cannot answer: %s", strerror(-r));
	end_call(call);
	return r;
}

int varlink_reply(struct varlink_call *call, json_t *parameters)
{
	struct varlink_out out = { .parameters = parameters };
	int r = finish_call(call, put_checked(call, &out));

	json_decref(parameters);
	return r;
}

int varlink_reply_text(struct varlink_call *call, const char *text, size_t len)
{
	struct varlink_out out = { .text = text, .text_len = len };

	return finish_call(call, put_checked(call, &out));
}

/* Ends the connection of a stream that has lost a message. */
static void end_broken_stream(struct varlink_call *call, int r)
{
	if (r == -ENOMEM || r == -EDQUOT || r == -ENOBUFS)
		varlink_connection_doom(call->connection, "cannot answer: %s", strerror(-r));
}

int varlink_notify(struct varlink_call *call, json_t *parameters)
{
	struct varlink_out out = { .parameters = parameters, .continues = true };
	int r = call->more ? put_checked(call, &out) : -EBADE;

	end_broken_stream(call, r);
	json_decref(parameters);
	return r;
}

int varlink_notify_text(struct varlink_call *call, const char *text, size_t len)
{
	struct varlink_out out = { .text = text, .text_len = len, .continues = true };
	int r = call->more ? put_checked(call, &out) : -EBADE;

	end_broken_stream(call, r);
	return r;
}

int varlink_error(struct varlink_call *call, const char *name, json_t *parameters)
{
	int r = finish_call(call, put_error(call, name, parameters, true));

	json_decref(parameters);
	return r;
}

int varlink_error_limit(struct varlink_call *call, const char *what, int64_t limit)
{
	return varlink_error(call, VARLINK_LIMIT_ERROR, varlink_limit_error(what, limit));
}

int varlink_error_parameter(struct varlink_call *call, const char *parameter)
{
	json_t *p = json_object();

	json_put_string(p, "parameter", parameter);
	return varlink_error(call, VARLINK_SERVICE "InvalidParameter", p);
}

int varlink_error_expected_more(struct varlink_call *call)
{
	return varlink_error(call, VARLINK_SERVICE "ExpectedMore", NULL);
}

bool varlink_call_more(const struct varlink_call *call)
{
	return call->more;
}

bool varlink_call_oneway(const struct varlink_call *call)
{
	return call->oneway;
}

const struct varlink_peer *varlink_call_peer(const struct varlink_call *call)
{
	return &call->connection->peer;
}

void varlink_call_set_user(struct varlink_call *call, void *user)
{
	call->connection->user = user;
}

void *varlink_call_user(const struct varlink_call *call)
{
	return call->connection->user;
}

void varlink_call_flush(struct varlink_call *call)
{
	varlink_connection_send(call->connection);
}

int varlink_call_socket(struct varlink_call *call)
{
	call->connection->handed = true;
	return call->connection->fd;
}

int varlink_call_descriptor(const struct varlink_call *call)
{
	return call->connection->descriptor;
}

const char *varlink_call_interface(const struct varlink_call *call)
{
	return call->interface->idl->name;
}

const char *varlink_call_method(const struct varlink_call *call)
{
	return call->method->name;
}

void varlink_call_on_gone(struct varlink_call *call, loop_fn fn, void *arg)
{
	call->gone = fn;
	call->gone_arg = arg;
}

bool varlink_call_congested(struct varlink_call *call, loop_fn fn, void *arg)
{
	const struct varlink_connection *c = call->connection;

	if (varlink_connection_before(c, call) <= varlink_limits_queued(c))
		return false;
	call->uncongested = fn;
	call->uncongested_arg = arg;
	return true;
}
