/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of all hosts' workers, and of operators on other hosts: each connection with a member is
 * one here, too, but has no socket.
 */
#include "agent/sharing/group_private.h"
#include "common/base/log.h"
#include "common/base/project.h"
#include "common/text/json.h"
#include "common/varlink/manager_idl.h"
#include "common/varlink/manager_ranges.h"
#include "common/varlink/worker_idl.h"
#include "common/varlink/worker_ranges.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	GROUP_CONNECTIONS = 1 << 20,
	HOST_CONNECTIONS = 4096, /* of operators, and of workers beyond their own */
};

/* A worker's connection with its own agent. */
struct group_connection {
	struct sharing_peer peer; /* first: the connection's user */
	struct chain_node node;
	TAILQ_ENTRY(group_connection) entry;
	struct sharing_host *host; /* NULL: it is gone */
	int64_t number;
	struct varlink_connection *carried;
};

/* --- connections --------------------------------------------------------------------------------
 */

void sharing_host_ready(struct sharing_host *x)
{
	struct group_connection *c;

	x->congested = false;
	TAILQ_FOREACH (c, &x->connections, entry)
		varlink_carried_ready(c->carried);
}

/* Sends {"connection":N,"message":TEXT}. */
static int say_answer(const struct group_connection *c, const char *message, size_t len)
{
	_cleanup_(json_writer_fini) struct json_writer t = { .data = NULL };

	json_write_format(&t, "{\"connection\":%" PRId64 ",\"message\":", c->number);
	json_write(&t, message, len);
	json_write(&t, "}", 1);
	if (t.failed)
		return -ENOMEM;
	return c->host->group->down.send(c->host->arg, "Answer", t.data, t.len);
}

static void say_hangup(const struct group_connection *c)
{
	char text[64];
	int n = snprintf(text, sizeof(text), "{\"connection\":%" PRId64 "}", c->number);

	(void)c->host->group->down.send(c->host->arg, "Hangup", text, (size_t)n);
}

/* A link takes one long answer more: the other connections wait. That one is the last to go on. */
static void hold_others(struct group_connection *c)
{
	struct sharing_host *x = c->host;
	struct group_connection *other;

	TAILQ_REMOVE(&x->connections, c, entry);
	TAILQ_FOREACH (other, &x->connections, entry)
		varlink_carried_hold(other->carried);
	TAILQ_INSERT_TAIL(&x->connections, c, entry);
}

static bool on_send(void *arg, const char *text, size_t len)
{
	struct group_connection *c = arg;
	struct sharing_host *x = c->host;
	int r = say_answer(c, text, len);

	/* Without this answer the worker would take the next one for it. */
	if (r < 0 && r != -ECONNRESET) {
		log_error("an answer cannot be sent to a worker: %s", strerror(-r));
		say_hangup(c);
	}
	if (!x->congested && x->group->down.congested(x->arg)) {
		x->congested = true;
		hold_others(c);
	}
	return !x->congested;
}

static void connection_leave(struct group_connection *c)
{
	if (!c->host)
		return;
	TAILQ_REMOVE(&c->host->connections, c, entry);
	chain_remove(&c->host->by_number, &c->node);
	c->host = NULL;
}

/* The server has ended it. */
static void on_ended(void *arg)
{
	struct group_connection *c = arg;

	say_hangup(c);
	connection_leave(c);
}

static void on_closed(void *user, void *arg)
{
	struct group_connection *c = user;

	FEATURES_CALL(c->peer.sv, worker_hung_up, c->peer.sv, &c->peer);
	connection_leave(c);
	free(c);
}

static void on_shut(void *user, void *arg)
{
	struct group_connection *c = user;

	FEATURES_CALL(c->peer.sv, worker_shut, c->peer.sv, &c->peer);
}

static uint64_t hash_of(int64_t number)
{
	return chain_hash(&number, sizeof(number));
}

static struct group_connection *connection_of(struct sharing_host *x, int64_t number)
{
	struct chain_node *n = chain_first(&x->by_number, hash_of(number));

	for (; n; n = chain_next(n)) {
		struct group_connection *c =
			(void *)((char *)n - offsetof(struct group_connection, node));

		if (c->number == number)
			return c;
	}
	return NULL;
}

static int connection_new(
	struct sharing_host *x, int64_t number, int slot, struct group_connection **ret)
{
	const struct varlink_peer peer = { .uid = getuid() };
	size_t most = SHARING_PER_WORKER * (size_t)x->n_workers + HOST_CONNECTIONS;
	struct group_connection *c = x->by_number.n < most ? calloc(1, sizeof(*c)) : NULL;
	const struct varlink_carrier carrier = { .send = on_send, .ended = on_ended, .arg = c };
	int r;

	if (x->by_number.n >= most)
		return -EUSERS;
	if (!c || chain_reserve(&x->by_number) < 0) {
		free(c);
		return -ENOMEM;
	}
	c->peer = (struct sharing_peer){ .sv = x->group->sv,
		.commons = x->group->commons,
		.slot = slot,
		.counted = slot,
		.token = slot < 0 ? 0 : (uint64_t)commons_worker(x->group->commons, slot)->start };
	c->host = x;
	c->number = number;
	r = varlink_carried_new(
		slot < 0 ? x->group->operators : x->group->server, &peer, c, &carrier, &c->carried);
	if (r < 0) {
		free(c);
		return r;
	}
	TAILQ_INSERT_HEAD(&x->connections, c, entry);
	if (x->congested)
		varlink_carried_hold(c->carried);
	chain_put(&x->by_number, &c->node, hash_of(number));
	if (slot >= 0)
		FEATURES_CALL(x->group->sv, worker_connected, x->group->sv, slot);
	*ret = c;
	return 0;
}

/* --- messages of members ------------------------------------------------------------------------
 */

/* The slot of a living worker of that host; -EPROTO with err. */
static int slot_of_host(const struct sharing_host *x, const char *name, struct error *err)
{
	const struct sharing_group *g = x->group;
	int slot = commons_slot_named(g->commons, name);
	const struct worker *w = slot >= 0 ? commons_worker(g->commons, slot) : NULL;

	if (w && g->host_of[w->place] == x)
		return slot;
	return error_field(
		err, -EPROTO, "worker", "expected one of this host, got \"%.100s\"", name);
}

/* The member answers its calls, and other connections of the host go on. */
static void refuse_connection(struct sharing_host *x, int64_t number)
{
	const struct group_connection c = { .host = x, .number = number };

	log_debug("a host has too many connections of workers");
	say_hangup(&c);
}

static int hear_call(struct sharing_host *x, const json_t *p, struct error *err)
{
	int64_t number = json_get_int(p, "connection", 0);
	struct group_connection *c = connection_of(x, number);
	size_t len;
	_cleanup_free_ char *text = NULL;
	int slot, r = 0;

	if (!c) {
		const char *name = json_get_string(p, "worker", "");

		slot = *name ? slot_of_host(x, name, err) : -1;
		if (*name && slot < 0)
			return slot;
		r = connection_new(x, number, slot, &c);
		if (r == -EUSERS) {
			refuse_connection(x, number);
			return 0;
		}
	}
	text = r ? NULL : json_dump_text(json_get_object(p, "message"), &len);
	if (text && varlink_carried_feed(c->carried, text, len) == 0)
		return 0;
	return error_set(err, -ENOMEM, "out of memory");
}

void group_hear_last_calls(const struct sharing_group *g, const struct worker *w)
{
	const struct sharing_host *x = g->host_of[w->place];
	struct group_connection *c = x ? TAILQ_FIRST(&x->connections) : NULL, *next;

	for (; c; c = next) { /* none ends but c */
		next = TAILQ_NEXT(c, entry);
		if (c->peer.slot == w->slot)
			varlink_carried_receive(c->carried);
	}
}

/* A worker may call and close the connection: that call counts, as on a socket. */
static void hear_hangup(struct sharing_host *x, int64_t number)
{
	struct group_connection *c = connection_of(x, number);

	varlink_carried_receive(c->carried);
	c = connection_of(x, number);
	if (!c)
		return;
	connection_leave(c);
	varlink_carried_close(c->carried);
}

int sharing_group_hear(
	struct sharing_host *x, const char *method, const json_t *p, struct error *err)
{
	struct group_connection *c;

	if (!strcmp(method, "Call"))
		return hear_call(x, p, err);
	if (!strcmp(method, "Samples"))
		return group_hear_samples(x, p, err);
	c = connection_of(x, json_get_int(p, "connection", 0));
	if (!c)
		return 0; /* it has ended here meanwhile */
	if (!strcmp(method, "Hangup") && json_get_bool(p, "shut", false))
		varlink_carried_shut(c->carried);
	else if (!strcmp(method, "Hangup"))
		hear_hangup(x, c->number);
	else
		varlink_carried_pause(c->carried, json_get_bool(p, "paused", false));
	return 0;
}

/* --- the service --------------------------------------------------------------------------------
 */

/* Its own agent has looked at its token. */
static int group_hello(struct varlink_call *call, json_t *p, void *arg)
{
	return sharing_hello_reply(call);
}

static int group_authorize(struct varlink_call *call, const char *method, json_t *p, void *arg)
{
	const struct sharing_peer *peer = varlink_call_user(call);

	if (sharing_is_present(call))
		return 0;
	sharing_fail(call, STATUS_ABORTED, "this is an earlier process of %s, which has ended",
		commons_slot_name(peer->commons, peer->slot));
	return 1;
}

/* As on worker.sock, but for Hello, and for Notify, which the worker's own agent takes. */
static struct varlink_method *group_methods(const struct supervisor *sv)
{
	struct varlink_method *all = features_methods(sv, true);
	size_t kept = 0;

	for (size_t i = 0; all && all[i].name; i++) {
		if (!strcmp(all[i].name, "Notify"))
			continue;
		all[kept] = all[i];
		if (!strcmp(all[kept].name, "Hello"))
			all[kept].fn = group_hello;
		kept++;
	}
	if (all)
		memset(&all[kept], 0, sizeof(all[kept]));
	return all;
}

/* Answers leave once their promises are on disk. */
static void on_leaving(void *arg)
{
	struct supervisor *sv = arg;

	FEATURES_CALL(sv, answers_leaving, sv);
}

static int open_server(struct sharing_group *g, struct error *err)
{
	struct varlink_also also[SHARING_INTERFACES];
	struct varlink_options opt = {
		.vendor = "elasticd",
		.product = "elastic-agent",
		.version = VERSION,
		.url = PROJECT_URL,
		.idl = worker_idl,
		.methods = g->methods,
		.flat = sharing_flat_methods,
		.ranges = worker_ranges,
		.also = also,
		.limits = {
			.message_bytes = SHARING_MESSAGE_BYTES,
			.reply_bytes = GROUP_ANSWER_BYTES,
			.queued_bytes = SHARING_QUEUED_BYTES,
			.connections = GROUP_CONNECTIONS,
			.bytes = SHARING_UNREAD_BYTES,
			.account_bytes = SHARING_UNREAD_WORKER_BYTES + SHARING_REPLY_BYTES,
			.account_name = "one worker",
		},
		.account = sharing_account,
		.authorize = group_authorize,
		.shut = on_shut,
		.closed = on_closed,
		.leaving = features_rely_on_disk(g->sv) ? on_leaving : NULL,
		.arg = g->sv,
	};
	int r;

	if (!g->methods)
		return error_set(err, -ENOMEM, "out of memory");
	features_interfaces(g->sv, true, also, SHARING_INTERFACES);
	r = varlink_server_new(supervisor_loop(g->sv), &opt, &g->server, err);
	if (r == 0)
		g->commons->server = g->server;
	return r;
}

/* Their own agents have looked at who they are. */
static int operators_authorize(struct varlink_call *call, const char *method, json_t *p, void *arg)
{
	bool queue = !strcmp(varlink_call_interface(call), "io.elasticd.Queue");

	if (queue ? strcmp(method, "Keep") != 0 : !strcmp(method, "Results"))
		return 0;
	varlink_error(call, "PermissionDenied",
		json_pack("{s:s}", "message", "this host answers that itself"));
	return 1;
}

static int open_operators(struct sharing_group *g, struct error *err)
{
	struct varlink_also also[SHARING_INTERFACES];
	struct varlink_options opt = {
		.vendor = "elasticd",
		.product = "elastic-agent",
		.version = VERSION,
		.url = PROJECT_URL,
		.idl = manager_idl,
		.methods = g->operators_methods,
		.ranges = manager_ranges,
		.also = also,
		.limits = { .message_bytes = SHARING_MESSAGE_BYTES,
			.reply_bytes = GROUP_ANSWER_BYTES },
		.authorize = operators_authorize,
		.closed = on_closed,
		.leaving = features_rely_on_disk(g->sv) ? on_leaving : NULL,
		.arg = g->sv,
	};

	if (!g->operators_methods)
		return error_set(err, -ENOMEM, "out of memory");
	features_interfaces(g->sv, false, also, SHARING_INTERFACES);
	return varlink_server_new(supervisor_loop(g->sv), &opt, &g->operators, err);
}

int group_servers_open(struct sharing_group *g, struct error *err)
{
	int r;

	g->methods = group_methods(g->sv);
	g->operators_methods = features_methods(g->sv, false);
	r = open_server(g, err);
	return r < 0 ? r : open_operators(g, err);
}

void group_servers_close(struct sharing_group *g)
{
	varlink_server_free(g->server);
	varlink_server_free(g->operators);
	free(g->methods);
	free(g->operators_methods);
}

void group_connections_renew(struct sharing_host *x)
{
	struct group_connection *c, *next;

	for (c = TAILQ_FIRST(&x->connections); c; c = next) {
		next = TAILQ_NEXT(c, entry);
		if (c->peer.slot < 0)
			continue; /* an operator's */
		connection_leave(c);
		varlink_carried_close(c->carried);
	}
}

void group_connections_close(struct sharing_host *x)
{
	struct group_connection *c;

	while ((c = TAILQ_FIRST(&x->connections))) {
		connection_leave(c);
		varlink_carried_close(c->carried);
	}
}
