/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of this host's workers and operators that the head answers. */
#include "agent/sharing/relay.h"
#include "agent/sharing/private.h"
#include "common/base/log.h"
#include "common/text/json.h"
#include "common/varlink/manager_error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct sharing_relay {
	struct sharing *sh;
	struct sharing_uplink uplink;
};

void sharing_relay_closed(struct sharing_peer *peer)
{
	if (peer->relayed)
		calls_out_close(peer->relayed);
}

void sharing_relay_shut(struct sharing_peer *peer)
{
	if (peer->relayed)
		calls_out_shut(peer->relayed);
}

void sharing_relay_ready(struct supervisor *sv)
{
	if (sharing_of(sv) && sharing_of(sv)->server)
		varlink_server_pause(sharing_of(sv)->server, false);
}

/* --- messages --- */

bool sharing_has_head(const struct supervisor *sv)
{
	return sharing_of(sv) && sharing_of(sv)->relay;
}

bool sharing_head_offset_us(const struct supervisor *sv, int64_t *ret)
{
	const struct sharing_uplink *up =
		sharing_has_head(sv) ? &sharing_of(sv)->relay->uplink : NULL;

	return up && up->offset_us(up->arg, ret);
}

void sharing_send_to_head(struct supervisor *sv, const char *method, json_t *body)
{
	const struct sharing_uplink *up = &sharing_of(sv)->relay->uplink;
	const struct calls_way *way = &up->calls->way;
	_cleanup_free_ char *text = NULL;
	size_t len;

	json_put_int(body, "round", (int64_t)up->round(up->arg));
	text = json_dump_text(body, &len);
	json_decref(body);
	if (!text || way->send(way->arg, method, text, len) == -ENOMEM)
		log_error("out of memory: %s is not sent to the host that leads", method);
}

/* --- calls --- */

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

bool sharing_relay_own_job(struct supervisor *sv, struct varlink_call *call, json_t *p)
{
	const char *job = json_get_string(p, "job", NULL);

	if (job && strcmp(job, supervisor_spec(sv)->name) &&
		strcmp(job, supervisor_options(sv)->run)) {
		varlink_error(call, "NotFound", manager_no_job(job));
		return false;
	}
	/* Methods of io.elasticd.Manager require a job, but any does. */
	json_object_del(p, "job");
	if (job && strcmp(varlink_call_interface(call), "io.elasticd.Queue") != 0)
		json_put_string(p, "job", "");
	return true;
}

/* peer: NULL for an operator's, whose connection is for one call. */
static struct calls_out_connection *connection_of(
	struct sharing_relay *r, struct sharing_peer *peer)
{
	if (!peer)
		return calls_out_open(r->uplink.calls, NULL);
	if (!peer->relayed)
		peer->relayed = calls_out_open(r->uplink.calls, &peer->relayed);
	return peer->relayed;
}

static void relay_barrier_passed(void *arg)
{
	FEATURES_CALL(arg, barrier_passed, arg);
}

/* True when the call is an arrival at the barrier of spec.ready. */
static bool relay_readies(const struct sharing *sh, struct varlink_call *call, const json_t *p)
{
	const char *barrier = supervisor_spec(sh->sv)->ready.barrier;

	return barrier && !strcmp(varlink_call_method(call), "Barrier") &&
	       !strcmp(json_get_string(p, "name", ""), barrier);
}

static int relay_call(
	struct sharing_relay *r, struct sharing_peer *peer, struct varlink_call *call, json_t *p)
{
	const struct calls_out_message m = {
		.round = r->uplink.round(r->uplink.arg),
		.worker = peer ? commons_slot_name(r->sh->commons, peer->slot) : "",
		.interface = varlink_call_interface(call),
		.method = varlink_call_method(call),
		.more = varlink_call_more(call),
		.oneway = varlink_call_oneway(call),
		.parameters = p,
		.succeeded = relay_readies(r->sh, call, p) ? relay_barrier_passed : NULL,
		.arg = r->sh->sv,
	};
	const struct calls_way *way = &r->uplink.calls->way;
	struct calls_out_connection *c;
	int sent;

	if (!sharing_relay_own_job(r->sh->sv, call, p))
		return 0;
	c = connection_of(r, peer);
	sent = c ? calls_out_forward(c, &m, call, NULL, NULL) : -ENOMEM;
	if (sent < 0)
		return relay_failed(call, sent);
	if (way->congested(way->arg))
		varlink_server_pause(r->sh->server, true);
	return 0;
}

int sharing_relay_call(struct varlink_call *call, json_t *p)
{
	struct sharing_peer *peer = varlink_call_user(call);

	return relay_call(peer->sh->relay, peer, call, p);
}

/* Also sets the result here: this host writes it to its run's results. Returns false after having
 * answered the call. */
static bool set_own_result(struct varlink_call *call, const json_t *p)
{
	struct flat view;

	flat_of((json_t *)p, &view);
	return sharing_set_result(call, &view);
}

/* Also reports the error here: this host names it when the worker ends. */
static void report_own_error(struct sharing *sh, int slot, const json_t *p)
{
	int code = status_from_name(json_get_string(p, "code", ""));

	if (code > STATUS_OK)
		commons_report_error(
			sh->commons, slot, (enum status)code, json_get_string(p, "message", ""));
}

/* The head answers all calls but those about what only this host knows: the owner of a token, a
 * notice to this host, and workers that are ready. */
bool sharing_relay_worker(struct varlink_call *call, const char *method, json_t *p, void *arg)
{
	int slot = sharing_slot_of(call);

	if (!strcmp(method, "Hello") || !strcmp(method, "Notify") || !strcmp(method, "Ready"))
		return false;
	if (!strcmp(method, "Result") && !set_own_result(call, p))
		return true;
	(void)sharing_relay_call(call, p);
	if (!strcmp(method, "ReportError"))
		report_own_error(sharing_of(arg), slot, p);
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

/* --- life --- */

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
	return 0;
}
