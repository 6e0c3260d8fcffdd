/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hosts/lead.h"
#include "agent/hosts/member.h"
#include "common/base/log.h"
#include "common/base/printable.h"
#include "common/text/json.h"
#include "common/text/ranks.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The orders of the head. The link has checked each against the interface; this file checks it
 * against this host's state and specification, and posts the event to the machine.
 */

void member_seat_fini(struct member_seat *s)
{
	free(s->roles);
	free(s->starts);
	memset(s, 0, sizeof(*s));
}

void member_start_fini(struct member_start *s)
{
	free(s->master_addr);
	json_decref(s->cluster);
	memset(s, 0, sizeof(*s));
}

static int hear_admitted(struct member *m, const json_t *p, struct error *err)
{
	m->was_member = true;
	m->answered_ms = hosts_now_ms();
	m->known_round = (uint64_t)json_get_int(p, "known_round", 0);
	/* Join was the first beat of the lease; this is its answer. */
	if (!lease_answer(&m->lease, m->lease.sent_ms, hosts_now_ms())) {
		member_post(m, MEMBER_EV_LOST);
		return 0;
	}
	member_arm_lease(m);
	FEATURES_CALL(m->sv, hosts_board, m->sv, 0, INT64_MIN, false); /* forgets the head before */
	member_post(m, MEMBER_EV_JOINED);
	if (*m->hosts->stop_text) /* the head before is lost, and has not stopped the group */
		member_say_ask(m, "stop", m->hosts->stop_timeout_ms, m->hosts->stop_text);
	if (m->hosts->lead)
		lead_linked(m->hosts->lead);
	return 0;
}

/* world: how many workers the group has. */
static int hear_place(const struct spec *spec, const json_t *place, int64_t world,
	struct seat_role *roles, struct error *err)
{
	const char *name = json_get_string(place, "role", "");
	int64_t first = json_get_int(place, "rank", 0), n = json_get_int(place, "replicas", 0);
	int64_t index = json_get_int(place, "role_rank", 0);
	int64_t size = json_get_int(place, "role_size", 1);

	if (world > RANKS_MAX || first + n > world || size > world || index + n > size)
		return error_field(err, -EPROTO, "places",
			"expected ranks below world_size, and that below %d", RANKS_MAX + 1);
	for (size_t i = 0; i < spec->n_roles; i++) {
		if (strcmp(spec->roles[i].name, name))
			continue;
		if (n > spec->roles[i].replicas)
			return error_field(err, -EPROTO, "places", "expected at most %d of %s",
				spec->roles[i].replicas, name);
		roles[i] = (struct seat_role){ .replicas = (int)n,
			.first_rank = (int)first,
			.first_index = (int)index,
			.role_size = (int)size };
		return 0;
	}
	return error_field(
		err, -EPROTO, "places", "expected roles of this host, got \"%.60s\"", name);
}

/* If the attempt runs already: the number of the next start of each worker. */
static int hear_starts(const json_t *list, struct member_seat *s, struct error *err)
{
	const json_t *one;
	size_t i;

	if (!json_array_size(list))
		return 0;
	s->starts = calloc(json_array_size(list), sizeof(*s->starts));
	if (!s->starts)
		return error_set(err, -ENOMEM, "out of memory");
	json_array_foreach (list, i, one) {
		int64_t start = json_integer_value(one);

		if (start < -1 || start >= INT_MAX)
			return error_field(err, -EPROTO, "starts",
				"expected numbers of starts or -1, got %lld", (long long)start);
		s->starts[i] = (int)start;
	}
	s->seat.starts = s->starts;
	s->seat.n_starts = (int)i;
	return 0;
}

static int hear_assign(struct member *m, const json_t *p, struct error *err)
{
	const struct spec *spec = m->hosts->spec;
	struct member_seat s = { .round = (uint64_t)json_get_int(p, "round", 0) };
	struct member_change change;
	const json_t *place;
	size_t i;
	int r = member_change(m->state, MEMBER_EV_ASSIGN, m->leaving, &change);

	if (r < 0)
		return error_field(err, -EPROTO, "method", "Assign does not fit a host that is %s",
			member_state_name(m->state));
	if (r > 0) /* sent before the head knew of this host's Join */
		return 0;
	s.roles = calloc(spec->n_roles, sizeof(*s.roles));
	if (!s.roles)
		return error_set(err, -ENOMEM, "out of memory");
	json_array_foreach (json_get_array(p, "places"), i, place)
		if ((r = hear_place(spec, place, json_get_int(p, "world_size", 1), s.roles, err)) <
			0)
			break;
	if (r < 0) {
		free(s.roles);
		return r;
	}
	s.addresses = json_get_int(p, "ports", 0) > 0;
	s.seat = (struct seat){ .attempt = (int)json_get_int(p, "attempt", 0),
		.restarts = (int)json_get_int(p, "restarts", 0),
		.group_rank = (int)json_get_int(p, "group_rank", 0),
		.group_size = (int)json_get_int(p, "group_size", 1),
		.world_size = (int)json_get_int(p, "world_size", 1),
		.master = json_get_bool(p, "master", false),
		.roles = s.roles };
	r = hear_starts(json_get_array(p, "starts"), &s, err);
	if (r < 0) {
		member_seat_fini(&s);
		return r;
	}
	member_seat_fini(&m->seat);
	m->seat = s;
	m->known_round = m->round = s.round;
	if (json_get_object(p, "failure"))
		supervisor_group_failed(m->sv, json_get_object(p, "failure"));
	member_post(m, MEMBER_EV_ASSIGN);
	return 0;
}

/* Whether an order is of another round than this host's. */
static bool hear_is_late(const struct member *m, const json_t *p)
{
	return (uint64_t)json_get_int(p, "round", 0) != m->round;
}

static int hear_start(struct member *m, const json_t *p, struct error *err)
{
	char *addr;

	if (hear_is_late(m, p) || m->state != MEMBER_PREPARED)
		return 0;
	addr = strdup(json_get_string(p, "master_addr", ""));
	if (!addr)
		return error_set(err, -ENOMEM, "out of memory");
	member_start_fini(&m->start);
	m->start.master_addr = addr;
	m->start.master_port = (int)json_get_int(p, "master_port", 0);
	m->start.cluster = json_incref(json_get_array(p, "cluster"));
	member_post(m, MEMBER_EV_START);
	return 0;
}

static int hear_stop(struct member *m, const json_t *p, struct error *err)
{
	if (hear_is_late(m, p))
		return 0;
	snprintf(m->cause, sizeof(m->cause), "%s", json_get_string(p, "cause", ""));
	m->stop_timeout_ms = json_get_int(p, "timeout_ms", SPEC_UNSET);
	m->final = strcmp(json_get_string(p, "reason", ""), "failure") &&
		   strcmp(json_get_string(p, "reason", ""), "membership");
	if (m->noticed && !m->final)
		m->leaving = true;
	member_post(m, MEMBER_EV_STOP);
	return 0;
}

static int hear_end(struct member *m, const json_t *p, struct error *err)
{
	const json_t *verdict = json_get_object(p, "verdict");

	if (member_is_away(m) || m->state == MEMBER_OVER)
		return 0;
	m->awaits_streams = verdict;
	member_post(m, MEMBER_EV_END);
	if (m->state != MEMBER_OVER)
		return 0;
	if (verdict)
		supervisor_take_verdict(m->sv, verdict, json_get_bool(p, "report", false));
	else
		member_give_up(m, "stopped", 128 + 15, "the group goes on without this host");
	return 0;
}

static int hear_dump(struct member *m, const json_t *p, struct error *err)
{
	FEATURES_CALL(m->sv, hosts_dump, m->sv, json_get_int(p, "number", 0),
		json_get_string(p, "why", ""));
	return 0;
}

static int hear_all_dumped(struct member *m, const json_t *p, struct error *err)
{
	const json_t *one;
	size_t i;

	if (hear_is_late(m, p))
		return 0;
	json_array_foreach (json_get_array(p, "missing"), i, one)
		log_warning(
			"host %.64s has not dumped its workers in time", json_string_value(one));
	FEATURES_CALL(m->sv, hosts_dumped, m->sv);
	return 0;
}

static int hear_renew(struct member *m, const json_t *p, struct error *err)
{
	if (m->hosts->lead)
		lead_renew_for(
			m->hosts->lead, json_get_int(p, "number", 0), json_get_array(p, "leases"));
	return 0;
}

static int hear_drain(struct member *m, const json_t *p, struct error *err)
{
	char text[256];

	if (m->state == MEMBER_OVER || m->hosts->head)
		return 0;
	printable_copy(text, sizeof(text), json_get_string(p, "text", ""));
	hosts_leave(m->hosts, text);
	return 0;
}

static const struct {
	const char *method;
	bool order; /* dropped if the lease is over */
	int (*hear)(struct member *m, const json_t *p, struct error *err);
} member_methods[] = {
	{ "Admitted", false, hear_admitted },
	{ "Assign", true, hear_assign },
	{ "Start", true, hear_start },
	{ "Stop", true, hear_stop },
	{ "End", true, hear_end },
	{ "Dump", true, hear_dump },
	{ "AllDumped", true, hear_all_dumped },
	{ "Reply", false, member_hear_reply },
	{ "Drain", true, hear_drain },
	{ "Deputize", true, member_hear_deputize },
	{ "Renew", false, hear_renew },
	{ "Records", false, member_hear_records },
};

/* About workers, not about this host: relay.c. */
static const char *const member_relayed[] = { "Answer", "Hangup", "Call", "Flow", "Order", "Board",
	"Read", "Straggler" };

int member_hear(void *arg, const char *method, json_t *p, struct error *err)
{
	struct member *m = arg;

	for (size_t i = 0; i < sizeof(member_relayed) / sizeof(member_relayed[0]); i++)
		if (!strcmp(member_relayed[i], method))
			return member_hear_relayed(m, method, p, err);
	for (size_t i = 0; i < sizeof(member_methods) / sizeof(member_methods[0]); i++) {
		if (strcmp(member_methods[i].method, method))
			continue;
		if (member_methods[i].order && !member_lease_holds(m))
			return 0;
		return member_methods[i].hear(m, p, err);
	}
	return error_field(
		err, -EPROTO, "method", "expected an order of the head, got \"%.60s\"", method);
}
