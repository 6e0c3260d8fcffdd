/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each connection of a worker that calls the head gets a number, by which the head knows it.
 * Answers of one connection come in the order of its calls, so none has a number of its own.
 */
#include "agent/sharing/relay.h"
#include "agent/sharing/private.h"
#include "common/base/log.h"
#include "common/text/hash_chain.h"
#include "common/text/json.h"
#include "common/varlink/manager_error.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A call that waits for the head's answer. */
struct relayed_call {
	TAILQ_ENTRY(relayed_call) entry;
	struct relayed *of;
	struct varlink_call *call;
};

TAILQ_HEAD(relayed_calls, relayed_call);

/* A connection of a worker that the head knows. */
struct relayed {
	LIST_ENTRY(relayed) entry;
	struct chain_node node;
	struct sharing_relay *relay;
	struct sharing_peer *peer; /* NULL: an operator's, for one call */
	int64_t number;
	struct relayed_calls calls;
	bool paused; /* its worker does not read */
};

struct sharing_relay {
	struct sharing *sh;
	struct sharing_uplink uplink;
	int64_t last; /* number */
	LIST_HEAD(, relayed) connections;
	struct chain by_number; /* the same */
};

/* --- connections --------------------------------------------------------------------------------
 */

static int relay_send(struct sharing_relay *r, const char *method, json_t *body)
{
	size_t len;
	_cleanup_free_ char *text = json_dump_text(body, &len);

	json_decref(body);
	return text ? r->uplink.send(r->uplink.arg, method, text, len) : -ENOMEM;
}

static void relay_hang_up(struct relayed *c, bool shut)
{
	json_t *body = json_object();
	int r;

	json_put_int(body, "connection", c->number);
	if (shut)
		json_put(body, "shut", json_true());
	r = relay_send(c->relay, "Hangup", body);
	if (r < 0 && r != -ECONNRESET)
		log_error("the head does not learn that a worker's connection has ended: %s",
			strerror(-r));
}

static void relayed_free(struct relayed *c)
{
	struct relayed_call *x;

	while ((x = TAILQ_FIRST(&c->calls))) {
		TAILQ_REMOVE(&c->calls, x, entry);
		free(x);
	}
	LIST_REMOVE(c, entry);
	chain_remove(&c->relay->by_number, &c->node);
	if (c->peer)
		c->peer->relayed = NULL;
	free(c);
}

static uint64_t hash_of(int64_t number)
{
	return chain_hash(&number, sizeof(number));
}

/* peer: NULL for a new one of an operator. */
static struct relayed *relayed_of(struct sharing_relay *r, struct sharing_peer *peer)
{
	struct relayed *c = peer ? peer->relayed : NULL;

	if (c)
		return c;
	c = calloc(1, sizeof(*c));
	if (!c || chain_reserve(&r->by_number) < 0) {
		free(c);
		return NULL;
	}
	c->relay = r;
	c->peer = peer;
	c->number = ++r->last;
	TAILQ_INIT(&c->calls);
	LIST_INSERT_HEAD(&r->connections, c, entry);
	chain_put(&r->by_number, &c->node, hash_of(c->number));
	if (peer)
		peer->relayed = c;
	return c;
}

void sharing_relay_closed(struct sharing_peer *peer)
{
	if (!peer->relayed)
		return;
	relay_hang_up(peer->relayed, false);
	relayed_free(peer->relayed);
}

void sharing_relay_shut(struct sharing_peer *peer)
{
	if (peer->relayed)
		relay_hang_up(peer->relayed, true);
}

/* --- calls --------------------------------------------------------------------------------------
 */

void sharing_relay_ready(struct supervisor *sv)
{
	if (sharing_of(sv) && sharing_of(sv)->server)
		varlink_server_pause(sharing_of(sv)->server, false);
}

/* The call is over, or gone. */
static void relayed_call_gone(void *arg)
{
	struct relayed_call *x = arg;
	struct relayed *c = x->of;

	TAILQ_REMOVE(&c->calls, x, entry);
	free(x);
	if (c->peer)
		return;
	relay_hang_up(c, false);
	relayed_free(c);
}

/* The message Call, as text. */
static char *call_text(
	const struct relayed *c, const struct varlink_call *call, const json_t *p, size_t *ret_len)
{
	const struct sharing_relay *r = c->relay;
	_cleanup_(json_writer_fini) struct json_writer t = { .data = NULL };
	const char *name = c->peer ? commons_slot_name(r->sh->commons, c->peer->slot) : "";
	size_t len;
	_cleanup_free_ char *parameters = json_dump_text(p, &len);

	if (!parameters)
		return NULL;
	json_write_format(&t, "{\"round\":%" PRIu64 ",\"connection\":%" PRId64 ",\"worker\":",
		r->uplink.round(r->uplink.arg), c->number);
	if (json_write_string(&t, name, strlen(name)) < 0)
		return NULL;
	json_write_format(&t, ",\"message\":{\"method\":\"%s.%s\",%s\"parameters\":",
		varlink_call_interface(call), varlink_call_method(call),
		varlink_call_more(call)	    ? "\"more\":true,"
		: varlink_call_oneway(call) ? "\"oneway\":true,"
					    : "");
	json_write(&t, parameters, len);
	json_write(&t, "}}", 2);
	*ret_len = t.len;
	return t.failed ? NULL : TAKE_PTR(t.data);
}

static int relay_failed(struct varlink_call *call, int r)
{
	if (r == -EMSGSIZE)
		return sharing_fail(call, STATUS_RESOURCE_EXHAUSTED,
			"the call is too long for the link to the host that leads the group");
	if (r == -ENOMEM)
		return sharing_fail(call, STATUS_RESOURCE_EXHAUSTED, "out of memory");
	return sharing_fail(
		call, STATUS_UNAVAILABLE, "there is no link to the host that leads the group");
}

/* Hosts call the group's job by names of their own, which the head does not know: takes this host's
 * out of the call. Returns false after having answered the call. */
static bool is_own_job(const struct sharing *sh, struct varlink_call *call, json_t *p)
{
	const char *job = json_get_string(p, "job", NULL);

	if (job && strcmp(job, supervisor_spec(sh->sv)->name) &&
		strcmp(job, supervisor_options(sh->sv)->run)) {
		varlink_error(call, "NotFound", manager_no_job(job));
		return false;
	}
	/* Where a call has to name one, any does. */
	json_object_del(p, "job");
	if (job && strcmp(varlink_call_interface(call), "io.elasticd.Queue") != 0)
		json_put_string(p, "job", "");
	return true;
}

static int relay_call(
	struct sharing_relay *r, struct sharing_peer *peer, struct varlink_call *call, json_t *p)
{
	struct relayed *c;
	struct relayed_call *x;
	_cleanup_free_ char *text = NULL;
	size_t len = 0;
	int sent;

	if (!is_own_job(r->sh, call, p))
		return 0;
	c = relayed_of(r, peer);
	x = c ? calloc(1, sizeof(*x)) : NULL;
	text = x ? call_text(c, call, p, &len) : NULL;
	sent = text ? r->uplink.send(r->uplink.arg, "Call", text, len) : -ENOMEM;
	if (sent < 0) {
		free(x);
		if (c && !c->peer)
			relayed_free(c);
		return relay_failed(call, sent);
	}
	if (r->uplink.congested(r->uplink.arg))
		varlink_server_pause(r->sh->server, true);
	x->of = c;
	x->call = call;
	TAILQ_INSERT_TAIL(&c->calls, x, entry);
	if (varlink_call_oneway(call)) {
		relayed_call_gone(x);
		return varlink_reply(call, NULL);
	}
	varlink_call_on_gone(call, relayed_call_gone, x);
	return 0;
}

int sharing_relay_call(struct varlink_call *call, json_t *p)
{
	struct sharing_peer *peer = varlink_call_user(call);

	return relay_call(peer->sh->relay, peer, call, p);
}

/* Also keeps the result with this host's run. Returns false after having answered the call. */
static bool keep_result(struct varlink_call *call, const json_t *p)
{
	struct flat view;
	_cleanup_free_ void *owned = NULL;
	struct sharing_bytes b;
	struct error err = { 0 };
	const void *value;
	enum status r;
	size_t len;

	flat_of((json_t *)p, &view);
	b = sharing_bytes_of(&view);
	if (sharing_bytes(call, &b, &value, &len, &owned) != 0)
		return false;
	r = commons_set_result(sharing_commons_of(call), sharing_slot_of(call), value, len, &err);
	if (r != STATUS_OK)
		sharing_fail(call, r, "%s", err.text);
	return r == STATUS_OK;
}

/* Also has the error at hand when the worker ends. */
static void keep_error(struct sharing *sh, int slot, const json_t *p)
{
	int code = status_from_name(json_get_string(p, "code", ""));

	if (code > STATUS_OK)
		commons_report_error(
			sh->commons, slot, (enum status)code, json_get_string(p, "message", ""));
}

/* All but what only this host knows: whose a token is, and that this host has a notice. */
bool sharing_relay_worker(struct varlink_call *call, const char *method, json_t *p, void *arg)
{
	int slot = sharing_slot_of(call);

	if (!strcmp(method, "Hello") || !strcmp(method, "Notify"))
		return false;
	if (!strcmp(method, "Result") && !keep_result(call, p))
		return true;
	(void)sharing_relay_call(call, p);
	if (!strcmp(method, "ReportError"))
		keep_error(arg, slot, p);
	return true;
}

/* An operator's calls that the head alone can answer. */
bool sharing_relay_operator(struct supervisor *sv, struct varlink_call *call, json_t *p)
{
	struct sharing *sh = sharing_of(sv);
	bool queue = !strcmp(varlink_call_interface(call), "io.elasticd.Queue");
	const char *method = varlink_call_method(call);

	if (!sh || !sh->relay || sh->group ||
		(queue ? !strcmp(method, "Keep") : strcmp(method, "Results")))
		return false;
	(void)relay_call(sh->relay, NULL, call, p);
	return true;
}

/* --- answers ------------------------------------------------------------------------------------
 */

static void relay_flow(struct relayed *c, bool paused)
{
	c->paused = paused;
	(void)relay_send(c->relay, "Flow",
		json_pack("{s:I, s:b}", "connection", (json_int_t)c->number, "paused", paused));
}

static void relay_room(void *arg)
{
	struct relayed_call *x = arg;

	relay_flow(x->of, false);
}

static void relay_answer(struct relayed *c, const json_t *message)
{
	struct relayed_call *x = TAILQ_FIRST(&c->calls);
	const char *error = json_get_string(message, "error", NULL);
	json_t *p = json_incref(json_get_object(message, "parameters"));
	struct varlink_call *call;

	if (!x) {
		json_decref(p);
		return;
	}
	call = x->call;
	if (json_get_bool(message, "continues", false)) {
		(void)varlink_notify(call, p);
		if (!c->paused && varlink_call_congested(call, relay_room, x))
			relay_flow(c, true);
		return;
	}
	if (c->paused) /* the next stream of this connection asks again */
		relay_flow(c, false);
	relayed_call_gone(x); /* frees c, if it is an operator's */
	if (error)
		(void)varlink_error(call, error, p);
	else
		(void)varlink_reply(call, p);
}

/* The head serves the connection no more; the worker's next call begins another one. */
static void relay_ended(struct relayed *c, const char *why)
{
	bool own = c->peer;
	struct relayed_call *x;

	while ((x = TAILQ_FIRST(&c->calls))) {
		struct varlink_call *call = x->call;

		relayed_call_gone(x);
		sharing_fail(call, STATUS_UNAVAILABLE, "%s", why);
		if (!own)
			return;
	}
	relay_hang_up(c, false);
	relayed_free(c);
}

static struct relayed *relayed_numbered(const struct sharing_relay *r, int64_t number)
{
	struct chain_node *n = chain_first(&r->by_number, hash_of(number));

	for (; n; n = chain_next(n)) {
		struct relayed *c = (void *)((char *)n - offsetof(struct relayed, node));

		if (c->number == number)
			return c;
	}
	return NULL;
}

void sharing_relay_hear(struct supervisor *sv, const char *method, const json_t *p)
{
	struct sharing_relay *r = sharing_of(sv) ? sharing_of(sv)->relay : NULL;
	struct relayed *c = r ? relayed_numbered(r, json_get_int(p, "connection", 0)) : NULL;

	if (!c)
		return; /* it has ended here meanwhile */
	if (!strcmp(method, "Answer"))
		relay_answer(c, json_get_object(p, "message"));
	else if (!json_get_bool(p, "shut", false))
		relay_ended(c, "the host that leads the group serves this connection no more");
}

void sharing_relay_cut(struct supervisor *sv)
{
	struct sharing_relay *r = sharing_of(sv) ? sharing_of(sv)->relay : NULL;

	while (r && !LIST_EMPTY(&r->connections))
		relay_ended(LIST_FIRST(&r->connections),
			"the link to the host that leads the group is lost");
	sharing_relay_ready(sv);
}

/* --- life ---------------------------------------------------------------------------------------
 */

int sharing_relay_to(struct supervisor *sv, const struct sharing_uplink *uplink)
{
	struct sharing *sh = sharing_of(sv);

	if (!sh)
		return 0;
	sh->relay = calloc(1, sizeof(*sh->relay));
	if (!sh->relay)
		return -ENOMEM;
	sh->relay->sh = sh;
	sh->relay->uplink = *uplink;
	LIST_INIT(&sh->relay->connections);
	return 0;
}

struct sharing_relay *sharing_relay_free(struct sharing_relay *r)
{
	if (r)
		chain_fini(&r->by_number);
	free(r);
	return NULL;
}
