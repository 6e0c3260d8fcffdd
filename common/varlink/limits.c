/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of what connections hold together. Calls that are handled in the turn in which they came,
 * and answers that the peer takes at once, cost nothing; counted is what waits: unfinished calls,
 * calls without an answer, unread answers. A connection over a limit gets an error in place of the
 * answer or the unfinished call, and is closed if neither helps.
 */
#include "common/base/descriptors.h"
#include "common/base/log.h"
#include "common/varlink/private.h"

#include <errno.h>
#include <string.h>

enum {
	MESSAGE_MS = 30 * 1000,
	STOOD_STILL_MS =
		1000, /* if a timer is so late, this process stood still, and not the peers */
	/* The limit of unsent output on one connection while the budget is crowded. */
	MODEST_BYTES = 32 << 10,
};

static void on_unfinished(void *arg);

/* Limits of all connections together. */

static const struct varlink_limits default_limits = {
	.message_bytes = 1 << 20,
	.reply_bytes = VARLINK_REPLY_BYTES,
	.queued_bytes = 4 << 20,
	.connections = 4096,
	.calls_in_flight = 64,
	.message_ms = MESSAGE_MS,
	.bytes = 64 << 20,
	.account_name = "one user",
};

static void take_limits(struct varlink_limits *l, const struct varlink_limits *given)
{
	*l = *given;
	if (!l->message_bytes)
		l->message_bytes = default_limits.message_bytes;
	if (!l->reply_bytes)
		l->reply_bytes = default_limits.reply_bytes;
	if (!l->queued_bytes)
		l->queued_bytes = default_limits.queued_bytes;
	if (!l->connections)
		l->connections = default_limits.connections;
	if (!l->calls_in_flight)
		l->calls_in_flight = default_limits.calls_in_flight;
	if (!l->message_ms)
		l->message_ms = default_limits.message_ms;
	if (!l->bytes)
		l->bytes = default_limits.bytes;
	if (!l->account_name)
		l->account_name = default_limits.account_name;
}

static struct budget_limits places_limits(const struct varlink_limits *l)
{
	return (struct budget_limits){ .total = (size_t)l->connections,
		.share = (size_t)(l->account_connections ? l->account_connections : l->connections),
		.reserve = (size_t)l->reserved_connections };
}

static struct budget_limits bytes_limits(const struct varlink_limits *l)
{
	return (struct budget_limits){ .total = l->bytes,
		.share = l->account_bytes ? l->account_bytes : l->bytes / 4,
		.reserve = l->reserved_bytes };
}

int varlink_limits_init(struct varlink_server *s, const struct varlink_options *opt)
{
	struct budget_limits places, bytes;
	int r;

	take_limits(&s->limits, &opt->limits);
	TAILQ_INIT(&s->unfinished);
	places = places_limits(&s->limits);
	bytes = bytes_limits(&s->limits);
	r = budget_new(&places, &s->places);
	if (r == 0 && !opt->budget)
		r = budget_new(&bytes, &s->own_bytes);
	s->bytes = opt->budget ? opt->budget : s->own_bytes;
	if (r == 0)
		r = loop_timer_new(s->loop, on_unfinished, s, &s->unfinished_timer);
	return r;
}

void varlink_limits_fini(struct varlink_server *s)
{
	loop_timer_free(s->unfinished_timer);
	budget_free(s->places);
	budget_free(s->own_bytes);
}

size_t varlink_server_bytes(const struct varlink_server *s)
{
	return budget_of_all(s->bytes);
}

void varlink_server_limit_connections(struct varlink_server *s, int connections)
{
	struct budget_limits l;

	s->limits.connections = connections;
	l = places_limits(&s->limits);
	budget_set_limits(s->places, &l);
}

void varlink_server_limit_bytes(struct varlink_server *s, size_t bytes)
{
	struct budget_limits l;

	s->limits.bytes = bytes;
	l = bytes_limits(&s->limits);
	if (s->own_bytes)
		budget_set_limits(s->own_bytes, &l);
}

/* Limits of one connection. */

static void on_cut(void *arg)
{
	varlink_connection_doom(arg, "others need what it holds");
}

static int join_as(struct varlink_connection *c)
{
	struct varlink_server *s = c->server;
	struct varlink_account *a = &c->account;
	int r;

	*a = (struct varlink_account){ .key = c->peer.uid, .trusted = true };
	if (s->account)
		s->account(&c->peer, c->user, a, s->arg);
	r = budget_join(s->places, &c->place, a->key, a->trusted, on_cut, c);
	return r < 0 ? r : budget_join(s->bytes, &c->bytes, a->key, a->trusted, on_cut, c);
}

int varlink_limits_join(struct varlink_connection *c)
{
	struct varlink_server *s = c->server;
	char what[64] = "connections";
	int r = join_as(c);

	if (r < 0)
		return r;
	if (c->fd >= 0 && !c->account.trusted && descriptor_is_reserved(c->fd)) {
		varlink_listen_refuse(s, c->fd, "open descriptors", descriptors_for_all());
		return -EUSERS;
	}
	r = budget_hold(&c->place, 1);
	if (r == 0)
		return 0;
	if (c->fd < 0)
		return -EUSERS;
	if (r == -EDQUOT)
		snprintf(what, sizeof(what), "connections of %s", s->limits.account_name);
	varlink_listen_refuse(s, c->fd, what, (int64_t)budget_limit(s->places, r));
	return -EUSERS;
}

static void forget_unfinished(struct varlink_connection *c)
{
	struct varlink_server *s = c->server;

	if (!c->unfinished)
		return;
	c->unfinished = false;
	TAILQ_REMOVE(&s->unfinished, c, unfinished_entry);
	if (TAILQ_EMPTY(&s->unfinished))
		loop_timer_disarm(s->unfinished_timer);
}

void varlink_limits_leave(struct varlink_connection *c)
{
	forget_unfinished(c);
	budget_leave(&c->place);
	budget_leave(&c->bytes);
}

void varlink_call_recount(struct varlink_call *call)
{
	struct varlink_connection *c = call->connection;

	budget_leave(&c->place);
	budget_leave(&c->bytes);
	if (join_as(c) < 0 || budget_hold(&c->place, 1) < 0 || varlink_limits_count(c) < 0)
		varlink_connection_doom(c, "there is no room for it");
}

struct varlink_account varlink_call_account(const struct varlink_call *call)
{
	return call->connection->account;
}

size_t varlink_call_account_bytes(const struct varlink_call *call)
{
	return budget_of_account(&call->connection->bytes);
}

size_t varlink_limits_queued(const struct varlink_connection *c)
{
	size_t most = c->server->limits.queued_bytes;

	return most > MODEST_BYTES && budget_crowded(&c->bytes) ? MODEST_BYTES : most;
}

/* Bytes of an unfinished call. Whole calls that wait for their turn do not count: they are handled
 * soon. */
static size_t unfinished_bytes(const struct varlink_connection *c)
{
	return c->waiting ? 0 : c->in.end - c->in.begin;
}

int varlink_limits_count(struct varlink_connection *c)
{
	return budget_hold(&c->bytes,
		unfinished_bytes(c) + c->open_bytes + varlink_buffer_held(&c->out) + c->held);
}

const char *varlink_limits_what(const struct varlink_server *s, int error, int64_t *ret_limit)
{
	static char text[128];

	snprintf(text, sizeof(text), "bytes of unfinished calls and unread answers of %s",
		error == -EDQUOT ? s->limits.account_name : "all");
	*ret_limit = (int64_t)budget_limit(s->bytes, error);
	return text;
}

/* The time limit for an unfinished message. */

static void watch_unfinished(struct varlink_connection *c)
{
	struct varlink_server *s = c->server;

	if (!unfinished_bytes(c) || c->eof || !varlink_connection_takes_calls(c)) {
		forget_unfinished(c);
		return;
	}
	if (c->unfinished)
		return;
	c->unfinished = true;
	c->unfinished_ms = loop_now_ms();
	if (TAILQ_EMPTY(&s->unfinished))
		loop_timer_arm(s->unfinished_timer, (uint64_t)s->limits.message_ms);
	TAILQ_INSERT_TAIL(&s->unfinished, c, unfinished_entry);
}

void varlink_limits_finished(struct varlink_connection *c)
{
	if (c->unfinished)
		forget_unfinished(c);
}

static void on_unfinished(void *arg)
{
	struct varlink_server *s = arg;
	uint64_t now = loop_now_ms(), most = (uint64_t)s->limits.message_ms;
	struct varlink_connection *c = TAILQ_FIRST(&s->unfinished);

	if (c && now > c->unfinished_ms + most + STOOD_STILL_MS) {
		TAILQ_FOREACH (c, &s->unfinished, unfinished_entry)
			c->unfinished_ms = now;
	}
	while ((c = TAILQ_FIRST(&s->unfinished)) && now >= c->unfinished_ms + most) {
		forget_unfinished(c);
		varlink_connection_refuse(c, "ms for a call to come as a whole", (int64_t)most);
	}
	if (c)
		loop_timer_arm(s->unfinished_timer, c->unfinished_ms + most - now);
}

void varlink_limits_settle(struct varlink_connection *c)
{
	const char *what;
	int64_t limit;
	int r;

	(void)varlink_frame_settle(&c->in);
	r = varlink_limits_count(c);
	if (r < 0 && unfinished_bytes(c) && !c->closing) {
		what = varlink_limits_what(c->server, r, &limit);
		varlink_connection_refuse(c, what, limit);
		varlink_connection_send(c);
		r = varlink_limits_count(c);
	}
	if (r < 0)
		varlink_connection_doom(c, "it holds more than it may: %s", strerror(-r));
	watch_unfinished(c);
}
