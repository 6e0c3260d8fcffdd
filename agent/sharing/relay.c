/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each connection of a worker that calls the head gets a number, by which the head knows it.
 * Answers of one connection come in the order of its calls, so none has a number of its own.
 */
#include "agent/sharing/relay.h"
#include "agent/sharing/private.h"
#include "common/base/log.h"
#include "common/text/json.h"
#include "common/varlink/manager_error.h"

#include <errno.h>
#include <inttypes.h>
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
	struct sharing_relay *relay;
	struct sharing_peer *peer;
	int64_t number;
	struct relayed_calls calls;
	bool paused; /* its worker does not read */
};

struct sharing_relay {
	struct sharing *sh;
	struct sharing_uplink uplink;
	int64_t last;					       /* number */
	struct varlink_method *interfaces[SHARING_INTERFACES]; /* the methods of each */
	LIST_HEAD(, relayed) connections;
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
	c->peer->relayed = NULL;
	free(c);
}

static struct relayed *relayed_of(struct sharing_peer *peer)
{
	struct sharing_relay *r = peer->sh->relay;
	struct relayed *c = peer->relayed;

	if (c)
		return c;
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	c->relay = r;
	c->peer = peer;
	c->number = ++r->last;
	TAILQ_INIT(&c->calls);
	LIST_INSERT_HEAD(&r->connections, c, entry);
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

static void relayed_call_gone(void *arg)
{
	struct relayed_call *x = arg;

	TAILQ_REMOVE(&x->of->calls, x, entry);
	free(x);
}

/* The message Call, as text. */
static char *call_text(
	const struct relayed *c, const struct varlink_call *call, const json_t *p, size_t *ret_len)
{
	const struct sharing_relay *r = c->relay;
	_cleanup_(json_writer_fini) struct json_writer t = { .data = NULL };
	const char *name = commons_slot_name(r->sh->commons, c->peer->slot);
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
	json_object_del(p, "job");
	return true;
}

int sharing_relay_call(struct varlink_call *call, json_t *p, void *arg)
{
	struct sharing_peer *peer = varlink_call_user(call);
	struct sharing_relay *r = peer->sh->relay;
	struct relayed *c;
	struct relayed_call *x;
	_cleanup_free_ char *text = NULL;
	size_t len = 0;
	int sent;

	if (!is_own_job(r->sh, call, p))
		return 0;
	c = relayed_of(peer);
	x = c ? calloc(1, sizeof(*x)) : NULL;
	text = x ? call_text(c, call, p, &len) : NULL;
	sent = text ? r->uplink.send(r->uplink.arg, "Call", text, len) : -ENOMEM;
	if (sent < 0) {
		free(x);
		return relay_failed(call, sent);
	}
	if (r->uplink.congested(r->uplink.arg))
		varlink_server_pause(r->sh->server, true);
	if (varlink_call_oneway(call)) {
		free(x);
		return varlink_reply(call, NULL);
	}
	x->of = c;
	x->call = call;
	TAILQ_INSERT_TAIL(&c->calls, x, entry);
	varlink_call_on_gone(call, relayed_call_gone, x);
	return 0;
}

/* Also keeps the result with this host's run. */
static int relay_result(struct varlink_call *call, json_t *p, void *arg)
{
	struct flat view;
	_cleanup_free_ void *owned = NULL;
	struct sharing_bytes b;
	struct error err = { 0 };
	const void *value;
	enum status r;
	size_t len;

	flat_of(p, &view);
	b = sharing_bytes_of(&view);
	if (sharing_bytes(call, &b, &value, &len, &owned) != 0)
		return 0;
	r = commons_set_result(sharing_commons_of(call), sharing_slot_of(call), value, len, &err);
	return r == STATUS_OK ? sharing_relay_call(call, p, arg)
			      : sharing_fail(call, r, "%s", err.text);
}

/* Also has the error at hand when the worker ends. */
static int relay_report_error(struct varlink_call *call, json_t *p, void *arg)
{
	struct sharing *sh = arg;
	int code = status_from_name(json_get_string(p, "code", "")), slot = sharing_slot_of(call);
	int r = sharing_relay_call(call, p, arg);

	if (code > STATUS_OK)
		commons_report_error(
			sh->commons, slot, (enum status)code, json_get_string(p, "message", ""));
	return r;
}

static const struct varlink_method relay_methods[] = {
	{ "Hello", sharing_hello },
	{ "Put", sharing_relay_call },
	{ "Get", sharing_relay_call },
	{ "List", sharing_relay_call },
	{ "Delete", sharing_relay_call },
	{ "Watch", sharing_relay_call },
	{ "Barrier", sharing_relay_call },
	{ "CancelBarrier", sharing_relay_call },
	{ "Alive", sharing_relay_call },
	{ "States", sharing_relay_call },
	{ "WaitError", sharing_relay_call },
	{ "Events", sharing_relay_call },
	{ "Leave", sharing_relay_call },
	{ "Step", sharing_relay_call },
	{ "Saved", sharing_relay_call },
	{ "Preemption", sharing_relay_call },
	{ "Result", relay_result },
	{ "ReportError", relay_report_error },
	{ NULL, NULL },
};

static bool is_relayed(const char *name)
{
	for (const struct varlink_method *m = relay_methods; m->name; m++)
		if (!strcmp(m->name, name))
			return true;
	return false;
}

struct varlink_method *sharing_relay_methods(struct varlink_method *own)
{
	size_t n = 0, kept = 0, more = sizeof(relay_methods) / sizeof(relay_methods[0]);
	struct varlink_method *all;

	if (!own)
		return NULL;
	while (own[n].name)
		n++;
	all = calloc(n + more, sizeof(*all));
	for (size_t i = 0; all && i < n; i++)
		if (!is_relayed(own[i].name))
			all[kept++] = own[i];
	if (all)
		memcpy(all + kept, relay_methods, sizeof(relay_methods));
	free(own);
	return all;
}

static size_t count_methods(const struct varlink_also *i)
{
	size_t n = 0;

	for (const struct varlink_method *m = i->methods; m->name; m++)
		n++;
	for (const struct varlink_flat_method *m = i->flat; m && m->name; m++)
		n++;
	return n;
}

int sharing_relay_interfaces(struct sharing_relay *r, struct varlink_also *also)
{
	for (size_t k = 0; also[k].idl; k++) {
		struct varlink_method *all = calloc(count_methods(&also[k]) + 1, sizeof(*all));
		size_t n = 0;

		if (!all)
			return -ENOMEM;
		r->interfaces[k] = all;
		for (const struct varlink_method *m = also[k].methods; m->name; m++)
			all[n++] = (struct varlink_method){ m->name, sharing_relay_call };
		for (const struct varlink_flat_method *m = also[k].flat; m && m->name; m++)
			all[n++] = (struct varlink_method){ m->name, sharing_relay_call };
		also[k].methods = all;
		also[k].flat = NULL;
	}
	return 0;
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
	relayed_call_gone(x);
	if (error)
		(void)varlink_error(call, error, p);
	else
		(void)varlink_reply(call, p);
}

/* The head serves the connection no more; the worker's next call begins another one. */
static void relay_ended(struct relayed *c, const char *why)
{
	struct relayed_call *x;

	while ((x = TAILQ_FIRST(&c->calls))) {
		struct varlink_call *call = x->call;

		relayed_call_gone(x);
		sharing_fail(call, STATUS_UNAVAILABLE, "%s", why);
	}
	relay_hang_up(c, false);
	relayed_free(c);
}

void sharing_relay_hear(struct supervisor *sv, const char *method, const json_t *p)
{
	struct sharing_relay *r = sharing_of(sv) ? sharing_of(sv)->relay : NULL;
	int64_t number = json_get_int(p, "connection", 0);
	struct relayed *c = r ? LIST_FIRST(&r->connections) : NULL;

	while (c && c->number != number)
		c = LIST_NEXT(c, entry);
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
	for (size_t k = 0; r && k < SHARING_INTERFACES; k++)
		free(r->interfaces[k]);
	free(r);
	return NULL;
}
