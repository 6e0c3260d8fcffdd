/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sharing/calls_in.h"
#include "common/base/log.h"
#include "common/text/json.h"
#include "common/text/json_writer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void calls_in_ready(struct calls_in *in)
{
	struct call_in *c;

	in->congested = false;
	TAILQ_FOREACH (c, &in->connections, entry)
		varlink_carried_ready(c->carried);
}

/* Sends {"connection":N,"message":TEXT}. */
static int send_answer(const struct call_in *c, const char *message, size_t len)
{
	_cleanup_(json_writer_fini) struct json_writer t = { .data = NULL };

	json_write_format(&t, "{\"connection\":%" PRId64 ",\"message\":", c->number);
	json_write(&t, message, len);
	json_write(&t, "}", 1);
	if (t.failed)
		return -ENOMEM;
	return c->in->way.send(c->in->way.arg, "Answer", t.data, t.len);
}

void calls_in_refuse(struct calls_in *in, int64_t number)
{
	char text[64];
	int n = snprintf(text, sizeof(text), "{\"connection\":%" PRId64 "}", number);

	(void)in->way.send(in->way.arg, "Hangup", text, (size_t)n);
}

/* The link is full, and the other connections wait until it has room. The one that has just sent
 * is then the last to go on. */
static void hold_others(struct call_in *c)
{
	struct calls_in *in = c->in;
	struct call_in *other;

	TAILQ_REMOVE(&in->connections, c, entry);
	TAILQ_FOREACH (other, &in->connections, entry)
		varlink_carried_hold(other->carried);
	TAILQ_INSERT_TAIL(&in->connections, c, entry);
}

static bool on_send(void *arg, const char *text, size_t len)
{
	struct call_in *c = arg;
	struct calls_in *in = c->in;
	int r = send_answer(c, text, len);

	/* Without this answer the caller would take the next one for it. */
	if (r < 0 && r != -ECONNRESET) {
		log_error("an answer cannot be sent to another host: %s", strerror(-r));
		calls_in_refuse(in, c->number);
	}
	if (in->stepwise)
		varlink_carried_pause(c->carried, true);
	if (!in->congested && in->way.congested(in->way.arg)) {
		in->congested = true;
		hold_others(c);
	}
	return !in->congested;
}

void call_in_left(struct call_in *c)
{
	if (!c->in)
		return;
	TAILQ_REMOVE(&c->in->connections, c, entry);
	chain_remove(&c->in->by_number, &c->node);
	c->in = NULL;
}

/* The server has ended it. */
static void on_ended(void *arg)
{
	struct call_in *c = arg;

	calls_in_refuse(c->in, c->number);
	call_in_left(c);
}

static uint64_t hash_of(int64_t number)
{
	return chain_hash(&number, sizeof(number));
}

struct call_in *calls_in_find(const struct calls_in *in, int64_t number)
{
	struct chain_node *n = chain_first(&in->by_number, hash_of(number));

	for (; n; n = chain_next(n)) {
		struct call_in *c = (void *)((char *)n - offsetof(struct call_in, node));

		if (c->number == number)
			return c;
	}
	return NULL;
}

int calls_in_open(struct calls_in *in, int64_t number, struct varlink_server *server, void *user,
	struct call_in *c)
{
	const struct varlink_peer peer = { .uid = getuid() };
	const struct varlink_carrier carrier = { .send = on_send, .ended = on_ended, .arg = c };
	int r = chain_reserve(&in->by_number);

	*c = (struct call_in){ .in = in, .number = number };
	if (!r)
		r = varlink_carried_new(server, &peer, user, &carrier, &c->carried);
	if (r < 0)
		return r;
	TAILQ_INSERT_HEAD(&in->connections, c, entry);
	if (in->congested)
		varlink_carried_hold(c->carried);
	chain_put(&in->by_number, &c->node, hash_of(number));
	return 0;
}

int call_in_feed(struct call_in *c, const json_t *call)
{
	size_t len;
	_cleanup_free_ char *text = json_dump_text(json_get_object(call, "message"), &len);

	return text ? varlink_carried_feed(c->carried, text, len) : -ENOMEM;
}

void call_in_receive(struct call_in *c)
{
	varlink_carried_receive(c->carried);
}

void call_in_close(struct call_in *c)
{
	call_in_left(c);
	varlink_carried_close(c->carried);
}

/* A worker may call and close the connection: that call counts, as on a socket. */
static void hangup_received(struct calls_in *in, int64_t number)
{
	struct call_in *c = calls_in_find(in, number);

	call_in_receive(c);
	c = calls_in_find(in, number);
	if (c)
		call_in_close(c);
}

void calls_in_received(struct calls_in *in, const char *method, const json_t *p)
{
	struct call_in *c = calls_in_find(in, json_get_int(p, "connection", 0));

	if (!c)
		return; /* it has ended here meanwhile */
	if (!strcmp(method, "Flow"))
		varlink_carried_pause(c->carried, json_get_bool(p, "paused", false));
	else if (json_get_bool(p, "shut", false))
		varlink_carried_shut(c->carried);
	else
		hangup_received(in, c->number);
}

void calls_in_close(struct calls_in *in)
{
	struct call_in *c;

	while ((c = TAILQ_FIRST(&in->connections)))
		call_in_close(c);
}

void calls_in_init(struct calls_in *in, const struct calls_way *way, bool stepwise)
{
	*in = (struct calls_in){ .way = *way, .stepwise = stepwise };
	TAILQ_INIT(&in->connections);
}

void calls_in_fini(struct calls_in *in)
{
	calls_in_close(in);
	chain_fini(&in->by_number);
}
