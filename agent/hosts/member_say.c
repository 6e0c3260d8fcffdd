/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hosts/member.h"
#include "agent/hosts/messages.h"
#include "agent/sharing/service.h"
#include "common/base/log.h"
#include "common/base/socket_address.h"
#include "common/text/json.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The messages of a member to the head. */

enum { BYE_MS = 3000 }; /* at most, for the last one */

void member_say(struct member *m, const char *method, json_t *body)
{
	int r;

	if (!m->link) {
		json_decref(body);
		return;
	}
	r = body ? link_send(m->link, method, body) : -ENOMEM;
	if (r < 0 && r != -ECONNRESET)
		log_error("%s cannot be sent to the head: %s", method, strerror(-r));
}

/* The address under which other hosts reach this one; text of SOCKET_ADDRESS_MAX bytes. */
static void say_address(const struct member *m, char *text)
{
	struct sockaddr_storage own;

	*text = '\0';
	if (m->hosts->address)
		snprintf(text, SOCKET_ADDRESS_MAX, "%s", m->hosts->address);
	else if (link_local_at(m->link, &own) == 0)
		getnameinfo((struct sockaddr *)&own, socket_address_len((struct sockaddr *)&own),
			text, SOCKET_ADDRESS_MAX, NULL, 0, NI_NUMERICHOST);
}

void member_say_join(struct member *m)
{
	char address[SOCKET_ADDRESS_MAX];
	const struct message_join j = { .spec = m->hosts->spec,
		.run = supervisor_options(m->sv)->run,
		.address = address,
		.settings = link_peer(m->link)->settings,
		.known_round = m->known_round,
		.last_round = m->last_round,
		.last_rank = m->last_rank,
		.attempts = supervisor_attempt(m->sv) + 1,
		.restarts = m->seat.seat.restarts,
		.answered_ms =
			m->answered_ms ? (int64_t)(hosts_now_ms() - m->answered_ms) : SPEC_UNSET };

	say_address(m, address);
	member_say(m, "Join", message_join(&j));
}

void member_say_prepared(struct member *m)
{
	char address[SOCKET_ADDRESS_MAX];

	say_address(m, address);
	member_say(m, "Prepared",
		message_prepared(m->round,
			m->seat.addresses ? supervisor_addresses(m->sv, address) : NULL,
			m->seat.seat.master ? address : NULL, supervisor_master_port(m->sv)));
}

void member_say_unable(struct member *m)
{
	log_warning("this host cannot take part: %s", m->unable.text);
	member_say(m, "Unable", message_unable(m->round, &m->unable));
}

void member_say_started(struct member *m)
{
	member_say(m, "Started", message_started(m->round, (int64_t)loop_real_us()));
}

/* The class of a failure, by which the head chooses among failures of the same time. */
static const char *say_class(const json_t *failure)
{
	const json_t *exit = json_object_get(failure, "exit");

	if (json_get_bool(failure, "reported", false) || json_object_get(failure, "traceback"))
		return "application";
	return json_get_string(exit, "signal_name", NULL) || json_object_get(exit, "code")
		       ? "exit"
		       : "timeout";
}

/* A copy with times by the head's clock, as far as this host knows that. */
static json_t *say_failure(const struct member *m, const json_t *failure)
{
	json_t *copy = json_deep_copy(failure);
	int64_t offset = m->clock.clock_known ? m->clock.offset_us : 0;

	json_put_int(copy, "time_us", json_get_int(failure, "time_us", 0) + offset);
	json_put_string(copy, "class", say_class(failure));
	if (m->clock.clock_known)
		json_put_int(copy, "uncertainty_us", m->clock.uncertainty_us);
	return copy;
}

void member_say_stopped(struct member *m)
{
	json_t *list = json_array();
	const json_t *failure;
	size_t i;

	json_array_foreach (m->failures, i, failure)
		json_add(list, say_failure(m, failure));
	member_say(m, "Gone", message_gone(m->round, list));
}

void member_say_leave(struct member *m)
{
	member_say(m, "Leave", message_leave(m->leave_text));
}

void member_say_bye(struct member *m)
{
	/* Without a connection, the head learns it by the end of the lease. */
	if (!m->linked) {
		m->link = link_free(m->link);
		return;
	}
	if (member_calls_delay_bye(m))
		return;
	if (m->was_member)
		member_say(m, "Bye", json_object());
	link_finish(m->link, BYE_MS);
}

static json_t *say_report(
	const struct member *m, const char *name, int rank, int start, const char *event)
{
	return message_report(m->round, name, rank, start, event, (int64_t)loop_real_us());
}

/* The state of a worker that has ended, for its Report. */
static const char *say_state(const struct worker *w)
{
	switch (w->state) {
	case WORKER_WAITING:
	case WORKER_SUCCEEDED:
		return worker_state_name(w->state);
	case WORKER_FAILED: /* member_say_failures() reports the failure itself */
		return worker_state_name(w->on_purpose ? WORKER_STOPPED : WORKER_FAILED);
	default:
		return worker_state_name(WORKER_STOPPED);
	}
}

void member_say_exited(struct member *m, const struct worker *w)
{
	json_t *body = say_report(m, worker_name(w), w->rank, w->start, "exited");

	json_put(body, "exit", worker_exit_json(&w->exit));
	json_put_string(body, "state", say_state(w));
	if (w->state == WORKER_WAITING || w->replaced)
		json_put(body, "alone", json_true());
	if (sharing_may_restart(m->sv, w))
		json_put(body, "recovers", json_true());
	FEATURES_CALL(m->sv, hosts_describe_end, m->sv, w, body);
	member_say(m, "Report", body);
}

void member_say_worker(struct member *m, const struct worker *w, const char *event)
{
	member_say(m, "Report", say_report(m, worker_name(w), w->rank, w->start, event));
}

void member_say_worker_over(struct member *m, const struct worker *w)
{
	json_t *body = say_report(m, worker_name(w), w->rank, w->start, "over");

	json_put_string(body, "state", say_state(w));
	member_say(m, "Report", body);
}

static bool say_has_reported(const json_t *list, const char *name)
{
	const json_t *one;
	size_t i;

	json_array_foreach (list, i, one)
		if (!strcmp(json_string_value(one), name))
			return true;
	return false;
}

void member_say_failures(struct member *m, bool over)
{
	_cleanup_json_ json_t *known = supervisor_known_failures(m->sv);
	const json_t *failure;
	size_t i;

	json_array_foreach (known, i, failure) {
		char name[320];
		json_t *body;

		snprintf(name, sizeof(name), "%s:%d", json_get_string(failure, "role", ""),
			(int)json_get_int(failure, "index", 0));
		if (json_get_bool(failure, "collateral", false) ||
			say_has_reported(m->reported, name))
			continue;
		json_add(m->reported, json_string(name));
		body = say_report(m, name, (int)json_get_int(failure, "rank", 0), 0, "failed");
		json_put(body, "failure", say_failure(m, failure));
		json_put(body, "over", json_boolean(over));
		member_say(m, "Report", body);
	}
}

void member_say_ask(struct member *m, const char *want, int64_t timeout_ms, const char *why)
{
	json_t *body = json_pack("{s:s, s:o}", "want", want, "text", json_text(why));

	if (timeout_ms != SPEC_UNSET)
		json_put_int(body, "timeout_ms", timeout_ms);
	member_say(m, "Ask", body);
}

void member_say_notice(struct member *m, const char *source, const char *reason, int64_t grace_ms,
	int64_t deadline_us)
{
	json_t *body = json_pack("{s:s, s:o}", "source", source, "reason", json_text(reason));
	int64_t left_ms = deadline_us == SPEC_UNSET
				  ? SPEC_UNSET
				  : (deadline_us - (int64_t)loop_real_us()) / 1000;

	if (grace_ms != SPEC_UNSET)
		json_put_int(body, "grace_ms", grace_ms);
	if (left_ms != SPEC_UNSET)
		json_put_int(body, "deadline_ms", left_ms > 0 ? left_ms : 0);
	member_say(m, "Notice", body);
	m->noticed = true;
}
