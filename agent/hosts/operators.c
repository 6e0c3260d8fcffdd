/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hosts/private.h"
#include "agent/sharing/relay.h"
#include "common/text/json.h"
#include "common/text/ranks.h"
#include "common/varlink/server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Operators' calls that concern all hosts, on any of them: the head answers. Where there is no link
 * to it, this host answers with what it knows, and says so.
 */

static const char no_link[] = "there is no link to the host that leads the group";

/* Whether this host is a member whose head can be asked. */
static bool is_linked(const struct member *m)
{
	return m->linked && m->state != MEMBER_AWAY && m->state != MEMBER_JOINING &&
	       m->state != MEMBER_FENCED && m->state != MEMBER_OVER;
}

static void stream_over(void *arg)
{
	struct member *m = arg;

	m->streams--;
	member_calls_check_bye(m);
}

static int ask_stream(struct member *m, struct varlink_call *call, json_t *p)
{
	const struct calls_out_message message = { .round = 1,
		.worker = "",
		.interface = varlink_call_interface(call),
		.method = varlink_call_method(call),
		.more = true,
		.parameters = p };
	struct calls_out_connection *c;
	int r;

	if (!varlink_call_more(call))
		return varlink_error_expected_more(call);
	if (!sharing_relay_own_job(m->sv, call, p))
		return 0;
	c = calls_out_open(&m->calls, NULL);
	m->streams++;
	r = c ? calls_out_forward(c, &message, call, stream_over, m) : -ENOMEM;
	if (r < 0)
		m->streams--;
	return r;
}

/* --- logs ---------------------------------------------------------------------------------------
 */

/* Whether all those ranks are of workers of this host. */
static bool are_own(const struct member *m, const char *text)
{
	_cleanup_(ranks_fini) struct ranks ranks = { 0 };
	struct error err = { 0 };
	int n = supervisor_n_workers(m->sv), own = 0;

	if (!text || ranks_parse(&ranks, text, "ranks", &err) < 0)
		return false;
	for (int i = 0; i < n; i++)
		own += ranks_contains(&ranks, supervisor_worker(m->sv, i)->rank);
	return own == ranks_count(&ranks);
}

/* Returns whether the call was answered: lines of this host's workers follow. */
static bool logs_of_this_host(struct member *m, struct varlink_call *call, const json_t *p)
{
	char note[256];

	if (are_own(m, json_get_string(p, "ranks", NULL)))
		return false;
	if (json_get_string(p, "ranks", NULL)) {
		(void)varlink_error(
			call, "Unavailable", json_pack("{s:s}", "message", no_link));
		return true;
	}
	snprintf(note, sizeof(note), "only workers of host %.64s: %s", supervisor_host(m->sv),
		no_link);
	if (varlink_call_more(call))
		(void)varlink_notify(call, json_pack("{s:[], s:s}", "lines", "note", note));
	return false;
}

static bool relay_logs(struct hosts *h, struct varlink_call *call, json_t *p, int *ret)
{
	struct member *m = h->member;
	bool follow = json_get_bool(p, "follow", false);

	if (h->head) {
		*ret = head_logs(h->head, call, p);
		return true;
	}
	if (!follow && json_get_int(p, "attempt", supervisor_attempt(m->sv)) ==
				supervisor_attempt(m->sv) &&
		are_own(m, json_get_string(p, "ranks", NULL)))
		return false;
	if (!is_linked(m))
		return logs_of_this_host(m, call, p);
	*ret = ask_stream(m, call, p);
	return true;
}

/* --- the hook -----------------------------------------------------------------------------------
 */

static const struct {
	const char *method;
	/* Whether it has the call answered; ret: what a handler returns. */
	bool (*relay)(struct hosts *h, struct varlink_call *call, json_t *p, int *ret);
} operator_methods[] = {
	{ "Logs", relay_logs },
};

bool hosts_relays_call(struct supervisor *sv, struct varlink_call *call, json_t *p)
{
	struct hosts *h = hosts_of(sv);
	int r = 0;

	if (!h || !h->begun || supervisor_ended(sv) ||
		strcmp(varlink_call_interface(call), "io.elasticd.Manager") != 0)
		return false;
	for (size_t i = 0; i < sizeof(operator_methods) / sizeof(operator_methods[0]); i++) {
		if (strcmp(operator_methods[i].method, varlink_call_method(call)) != 0)
			continue;
		if (!operator_methods[i].relay(h, call, p, &r))
			return false;
		if (r < 0)
			(void)varlink_error(call, "Internal",
				json_pack("{s:s, s:i}", "message", strerror(-r), "errno", -r));
		return true;
	}
	return false;
}
