/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/api/caller.h"
#include "agent/hosts/head.h"
#include "agent/hosts/member.h"
#include "common/base/log.h"
#include "common/text/json.h"
#include "common/varlink/manager_error.h"
#include "common/varlink/server.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Hosts that leave the group on purpose, or are let back: Leave and Drain of io.elasticd.Manager.
 * Only the head knows all hosts: a member sends it Ask, and answers its caller when Reply comes.
 */

/* A Drain without a Reply. */
struct drain_call {
	LIST_ENTRY(drain_call) entry;
	struct varlink_call *call; /* NULL: the caller has gone */
	char *host;
	int64_t number;
};

static int leave_refuse(struct varlink_call *call, const char *host, const struct error *why)
{
	if (why->code == -ENOENT)
		return varlink_error(call, "NotFound", manager_no_host(host, why->text));
	if (why->code == -ENOTCONN)
		return varlink_error(call, "Unavailable", json_pack("{s:s}", "message", why->text));
	return varlink_error(call, "FailedPrecondition", json_pack("{s:s}", "message", why->text));
}

static int leave_leads(const struct hosts *h, struct error *err)
{
	return error_set(err, -EBUSY,
		"host %.64s leads the group, which ends without it: stop the job to end the group",
		supervisor_host(h->sv));
}

void hosts_leave(struct hosts *h, const char *why)
{
	h->leave_asked = true;
	end_run_stop_asked(h->sv, 0, SPEC_UNSET, why);
	supervisor_settle(h->sv);
}

/* Whether the job has a group that goes on. If not, refuses the call. */
static bool leave_can(struct supervisor *sv, const struct hosts *h, struct varlink_call *call)
{
	struct error err = { 0 };

	supervisor_settle(sv);
	if (!h) {
		error_set(&err, -EINVAL, "%s has one host (rendezvous.nodes), which has no group",
			supervisor_spec(sv)->name);
		leave_refuse(call, NULL, &err);
		return false;
	}
	if (!supervisor_decided(sv))
		return true;
	varlink_error(call, "FailedPrecondition",
		manager_not_active(
			supervisor_spec(sv)->name, group_state_name(supervisor_group(sv)->state)));
	return false;
}

int hosts_method_leave(struct varlink_call *call, json_t *p, void *arg)
{
	struct supervisor *sv = arg;
	struct hosts *h = hosts_of(sv);
	char why[160], caller[USER_NAME_MAX];
	struct error err = { 0 };

	if (!leave_can(sv, h, call))
		return 0;
	if (h->head && !h->lead) {
		leave_leads(h, &err);
		return leave_refuse(call, NULL, &err);
	}
	snprintf(why, sizeof(why), "left the group on request of user %s",
		caller_name(call, p, caller));
	hosts_leave(h, why);
	return varlink_reply(call, NULL);
}

static bool drain_is_there(const struct round_host *host)
{
	return host->state != HOST_GONE && host->state != HOST_MISSING && !host->leaving;
}

/* The error names the hosts that are there. */
static int drain_unknown(const struct head *h, const char *name, struct error *err)
{
	const struct round_host *host = NULL;
	char names[HEAD_NAMES] = "";

	while ((host = round_next_host(h->round, host)))
		if (drain_is_there(host))
			head_list_name(names, host->name);
	return error_field(err, -ENOENT, "host", "no host %.64s in the group, which has %s", name,
		*names ? names : "none");
}

int head_drain(struct head *h, const char *name, const char *why, struct error *err)
{
	const struct round_host *host = NULL;
	struct head_host *x = NULL;
	int n = 0;

	if (h->end.state)
		return error_set(err, -ESHUTDOWN, "the group is about to end");
	while ((host = round_next_host(h->round, host))) {
		if (!drain_is_there(host) || strcmp(host->name, name) != 0)
			continue;
		x = head_member(h, host->number);
		n++;
	}
	if (!x)
		return drain_unknown(h, name, err);
	if (n > 1)
		return error_set(err, -EEXIST,
			"%d hosts of the group are called %.64s: ask the one that is meant to leave",
			n, name);
	if (head_is_own(h, x) && !h->hosts->lead)
		return leave_leads(h->hosts, err);
	if (head_is_own(h, x)) {
		hosts_leave(h->hosts, why);
		return 0;
	}
	log_notice("host %.64s is %.200s", name, why);
	head_say(x, "Drain", json_pack("{s:o}", "text", json_text(why)));
	return 0;
}

int member_hear_reply(struct member *m, const json_t *p, struct error *unused)
{
	int64_t number = json_get_int(p, "number", 0);
	const char *why = json_get_string(p, "why", NULL);
	struct error err = { 0 };
	struct drain_call *d;

	LIST_FOREACH (d, &m->hosts->drains, entry)
		if (d->number == number)
			break;
	if (!d)
		return 0;
	if (why)
		error_set(&err, json_get_bool(p, "unknown", false) ? -ENOENT : -EBUSY, "%s", why);
	if (d->call && why)
		leave_refuse(d->call, d->host, &err);
	else if (d->call)
		varlink_reply(d->call, NULL);
	LIST_REMOVE(d, entry);
	free(d->host);
	free(d);
	return 0;
}

void hosts_fail_drains(struct hosts *h)
{
	struct error err = { 0 };
	struct drain_call *d;

	error_set(&err, -ENOTCONN, "there is no link to the host that leads the group");
	while ((d = LIST_FIRST(&h->drains))) {
		LIST_REMOVE(d, entry);
		if (d->call)
			leave_refuse(d->call, d->host, &err);
		free(d->host);
		free(d);
	}
}

static void drain_gone(void *arg)
{
	((struct drain_call *)arg)->call = NULL;
}

static int drain_ask(
	struct hosts *h, struct varlink_call *call, const char *name, const char *why, bool undo)
{
	struct drain_call *d = calloc(1, sizeof(*d));

	if (!d || !(d->host = strdup(name))) {
		free(d);
		return -ENOMEM;
	}
	d->number = ++h->ask_number;
	d->call = call;
	varlink_call_on_gone(call, drain_gone, d);
	LIST_INSERT_HEAD(&h->drains, d, entry);
	member_say(h->member, "Ask",
		json_pack("{s:s, s:o, s:o, s:I}", "want", undo ? "let_back" : "drain", "text",
			json_text(why), "host", json_text(name), "number", (json_int_t)d->number));
	return 0;
}

int hosts_method_drain(struct varlink_call *call, json_t *p, void *arg)
{
	struct supervisor *sv = arg;
	struct hosts *h = hosts_of(sv);
	const char *name = json_get_string(p, "host", "");
	bool undo = json_get_bool(p, "undo", false);
	char why[256], caller[USER_NAME_MAX];
	struct error err = { 0 };
	int r;

	if (!leave_can(sv, h, call))
		return 0;
	snprintf(why, sizeof(why), "%s on request of user %s on %.64s",
		undo ? "let back" : "drained", caller_name(call, p, caller), supervisor_host(sv));
	if (!h->head && h->member->linked && !member_is_away(h->member))
		return drain_ask(h, call, name, why, undo);
	if (!h->head)
		r = error_set(&err, -ENOTCONN, "there is no link to the host that leads the group");
	else
		r = undo ? head_let_back(h->head, name, why, &err)
			 : head_drain(h->head, name, why, &err);
	return r < 0 ? leave_refuse(call, name, &err) : varlink_reply(call, NULL);
}
