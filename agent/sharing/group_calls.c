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

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum {
	GROUP_CONNECTIONS = 1 << 20,
	HOST_CONNECTIONS = 4096, /* of operators, and of workers beyond their own */
};

/* A worker's connection with its own agent. */
struct group_connection {
	struct sharing_peer peer; /* first: the connection's user */
	struct call_in in;
};

static struct group_connection *connection_of(struct call_in *c)
{
	return c ? (void *)((char *)c - offsetof(struct group_connection, in)) : NULL;
}

/* --- connections --- */

void sharing_host_ready(struct sharing_host *x)
{
	calls_in_ready(&x->calls);
}

static void on_closed(void *user, void *arg)
{
	struct group_connection *c = user;

	FEATURES_CALL(c->peer.sv, worker_hung_up, c->peer.sv, &c->peer);
	call_in_left(&c->in);
	free(c);
}

static void on_shut(void *user, void *arg)
{
	struct group_connection *c = user;

	FEATURES_CALL(c->peer.sv, worker_shut, c->peer.sv, &c->peer);
}

static int connection_new(
	struct sharing_host *x, int64_t number, int slot, struct group_connection **ret)
{
	size_t most = SHARING_PER_WORKER * (size_t)x->n_workers + HOST_CONNECTIONS;
	struct group_connection *c;
	int r;

	if (x->calls.by_number.n >= most)
		return -EUSERS;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->peer = (struct sharing_peer){ .sv = x->group->sv,
		.commons = x->group->commons,
		.slot = slot,
		.counted = slot,
		.token = slot < 0 ? 0 : (uint64_t)commons_worker(x->group->commons, slot)->start };
	r = calls_in_open(
		&x->calls, number, slot < 0 ? x->group->operators : x->group->server, c, &c->in);
	if (r < 0) {
		free(c);
		return r;
	}
	if (slot >= 0)
		FEATURES_CALL(x->group->sv, worker_connected, x->group->sv, slot);
	*ret = c;
	return 0;
}

/* --- messages of members --- */

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

static int call_received(struct sharing_host *x, const json_t *p, struct error *err)
{
	int64_t number = json_get_int(p, "connection", 0);
	struct group_connection *c = connection_of(calls_in_find(&x->calls, number));
	int r = 0;

	if (number <= 0)
		return error_field(err, -EPROTO, "connection",
			"expected a number of a member's, got %lld", (long long)number);
	if (!c) {
		const char *name = json_get_string(p, "worker", "");
		int slot = *name ? slot_of_host(x, name, err) : -1;

		if (*name && slot < 0)
			return slot;
		r = connection_new(x, number, slot, &c);
	}
	if (r == -EUSERS) { /* the member answers its calls, and other connections go on */
		log_debug("a host has too many connections of workers");
		calls_in_refuse(&x->calls, number);
		return 0;
	}
	if (!r && call_in_feed(&c->in, p) == 0)
		return 0;
	return error_set(err, -ENOMEM, "out of memory");
}

void group_receive_last_calls(const struct sharing_group *g, const struct worker *w)
{
	const struct sharing_host *x = g->host_of[w->place];
	struct call_in *c = x ? TAILQ_FIRST(&x->calls.connections) : NULL, *next;

	for (; c; c = next) { /* none ends but c */
		next = TAILQ_NEXT(c, entry);
		if (connection_of(c)->peer.slot == w->slot)
			call_in_receive(c);
	}
}

int sharing_group_received(
	struct sharing_host *x, const char *method, const json_t *p, struct error *err)
{
	if (!strcmp(method, "Call"))
		return call_received(x, p, err);
	if (!strcmp(method, "Samples"))
		return group_samples_received(x, p, err);
	if (!strcmp(method, "Steps"))
		return FEATURES_FIRST(x->group->sv, 0, hosts_stepped, x->group->sv, x->first_rank,
			x->n_workers, p, err);
	calls_in_received(&x->calls, method, p);
	return 0;
}

/* --- the service --- */

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

static int on_holds(void *arg, uint64_t *mark)
{
	return FEATURES_FIRST(arg, 0, holds_answers, arg, mark);
}

void sharing_group_kept(struct sharing_group *g)
{
	varlink_server_kept(g->server);
	varlink_server_kept(g->operators);
}

static int open_server(struct sharing_group *g, struct error *err)
{
	struct varlink_interface_options more[SHARING_INTERFACES];
	struct varlink_options opt;
	int r;

	if (!g->methods)
		return error_set(err, -ENOMEM, "out of memory");
	sharing_server_options(g->sv, g->methods, more, &opt);
	opt.limits.reply_bytes = GROUP_ANSWER_BYTES;
	opt.limits.connections = GROUP_CONNECTIONS;
	opt.limits.bytes = SHARING_UNREAD_BYTES;
	opt.authorize = group_authorize;
	opt.shut = on_shut;
	opt.closed = on_closed;
	opt.holds = FEATURES_ANY(g->sv, relies_on_disk, g->sv) ? on_holds : NULL;
	r = varlink_server_new(supervisor_loop(g->sv), &opt, &g->server, err);
	if (r == 0)
		g->commons->server = g->server;
	return r;
}

/* Their own agents have looked at who they are. */
static int operators_authorize(struct varlink_call *call, const char *method, json_t *p, void *arg)
{
	static const char *const answered[] = { "Results", "Logs", "Status", "Why", "Errors",
		"Dump" };
	bool queue = !strcmp(varlink_call_interface(call), "io.elasticd.Queue");

	if (queue && strcmp(method, "Keep") != 0)
		return 0;
	for (size_t i = 0; !queue && i < sizeof(answered) / sizeof(answered[0]); i++)
		if (!strcmp(answered[i], method))
			return 0;
	varlink_error(call, "PermissionDenied",
		json_pack("{s:s}", "message", "this host answers that itself"));
	return 1;
}

/* By hosts. */
static void operators_account(
	const struct varlink_peer *peer, void *user, struct varlink_account *ret, void *arg)
{
	const struct group_connection *c = user;

	*ret = (struct varlink_account){ .key = (uintptr_t)c->in.in };
}

static bool operators_relay(struct varlink_call *call, const char *method, json_t *p, void *arg)
{
	return FEATURES_ANY(arg, relays_call, arg, call, p);
}

static int open_operators(struct sharing_group *g, struct error *err)
{
	struct varlink_interface_options more[SHARING_INTERFACES];
	const struct varlink_options opt = {
		.vendor = "elasticd",
		.product = "elastic-agent",
		.version = VERSION,
		.url = PROJECT_URL,
		.idl = manager_idl,
		.methods = g->operators_methods,
		.ranges = manager_ranges,
		.more_interfaces = more,
		.limits = { .message_bytes = SHARING_MESSAGE_BYTES,
			.reply_bytes = GROUP_ANSWER_BYTES },
		.account = operators_account,
		.authorize = operators_authorize,
		.relay = operators_relay,
		.closed = on_closed,
		.leaving =
			FEATURES_ANY(g->sv, relies_on_disk, g->sv) ? sharing_answers_leaving : NULL,
		.holds = FEATURES_ANY(g->sv, relies_on_disk, g->sv) ? on_holds : NULL,
		.arg = g->sv,
	};

	if (!g->operators_methods)
		return error_set(err, -ENOMEM, "out of memory");
	features_interfaces(g->sv, false, more, SHARING_INTERFACES);
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
	struct call_in *c, *next;

	for (c = TAILQ_FIRST(&x->calls.connections); c; c = next) {
		next = TAILQ_NEXT(c, entry);
		if (connection_of(c)->peer.slot >= 0)
			call_in_close(c);
	}
}
