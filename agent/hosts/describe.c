/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hosts/head.h"
#include "agent/hosts/member.h"
#include "common/base/clock.h"
#include "common/text/json.h"

#include <string.h>

/* The hosts of the group for people, as far as this host knows them. */

/* A time of CLOCK_BOOTTIME as one of the calendar. */
static int64_t describe_real_us(int64_t boot_us)
{
	return (int64_t)loop_real_us() - (boottime_us() - boot_us);
}

static void describe_clock(json_t *host, const struct link_beat *beat, int64_t sign)
{
	if (!beat->clock_known)
		return;
	json_put_int(host, "offset_us", sign * beat->offset_us);
	json_put_int(host, "uncertainty_us", beat->uncertainty_us);
}

static json_t *describe_role(const struct spec_role *role, int n, int first_rank, int first_index)
{
	return json_pack("{s:s, s:i, s:i, s:i}", "role", role->name, "workers", n, "first_rank",
		first_rank, "first_index", first_index);
}

/* The workers of each role on the host of that seat. */
static json_t *describe_roles(const struct head *h, const int *replicas, int group_rank,
	int first_rank, const int *first_index)
{
	const struct ranked_host ranked = { .replicas = replicas };
	int rank = first_rank;
	json_t *list = json_array();

	for (int i = 0; i < h->roles.n; i++) {
		int n = host_ranks_replicas(&ranked, &h->roles, i, group_rank);

		if (n)
			json_add(list, describe_role(&h->spec->roles[i], n, rank, first_index[i]));
		rank += n;
	}
	return list;
}

static json_t *describe_member(const struct head *h, const struct round_host *r)
{
	const struct head_host *x = head_member(h, r->number);
	json_t *host = json_pack("{s:s, s:s, s:b}", "host", r->name, "state",
		host_state_name(r->state), "leads", x && head_is_own(h, x));

	if (x)
		json_put_string(host, "address", x->address);
	if (r->topology)
		json_put_string(host, "topology", r->topology);
	if (r->kept_until_ms)
		json_put_int(
			host, "quarantine_us", describe_real_us((int64_t)r->kept_until_ms * 1000));
	if (r->round && r->round == round_number(h->round) && r->group_rank >= 0) {
		json_put_int(host, "group_rank", r->group_rank);
		json_put_int(host, "first_rank", r->first_rank);
		json_put_int(host, "workers", r->workers);
		json_put(host, "roles",
			describe_roles(
				h, r->replicas, r->group_rank, r->first_rank, r->first_index));
	}
	if (!x)
		return host;
	if (x->beat.came_boot_us)
		json_put_int(host, "heard_us", describe_real_us(x->beat.came_boot_us));
	describe_clock(host, &x->beat, 1);
	if (x->link)
		json_put_string(host, "version", link_peer(x->link)->version);
	return host;
}

/* A seat that no host has: by the name of the one that had it. */
static json_t *describe_seat(const struct head *h, const struct round_seat *s)
{
	return json_pack("{s:s, s:s, s:b, s:i, s:i, s:i, s:o}", "host", s->name, "state", "vacant",
		"leads", 0, "group_rank", s->group_rank, "first_rank", s->first_rank, "workers",
		s->workers, "roles",
		describe_roles(h, s->replicas, s->group_rank, s->first_rank, s->first_index));
}

json_t *head_hosts_json(const struct head *h)
{
	const struct round_seat *seat = NULL;
	const struct round_host *r = NULL;
	json_t *list = json_array();

	while ((r = round_next_host(h->round, r)))
		if (r->state != HOST_GONE)
			json_add(list, describe_member(h, r));
	while ((seat = round_next_seat(h->round, seat)))
		if (!seat->host)
			json_add(list, describe_seat(h, seat));
	return list;
}

static json_t *describe_own_roles(const struct member *m)
{
	const struct spec *spec = m->hosts->spec;
	json_t *list = json_array();

	for (size_t i = 0; i < spec->n_roles; i++) {
		const struct seat_role *r = &m->seat.roles[i];

		if (r->replicas)
			json_add(list, describe_role(&spec->roles[i], r->replicas, r->first_rank,
					       r->first_index));
	}
	return list;
}

json_t *member_hosts_json(const struct member *m)
{
	json_t *list = json_array(), *own, *head;

	own = json_pack("{s:s, s:s, s:b}", "host", supervisor_host(m->sv), "state",
		member_state_name(m->state), "leads", 0);
	if (m->round) {
		json_put_int(own, "group_rank", m->seat.seat.group_rank);
		if (m->seat.roles) {
			json_put_int(own, "first_rank", m->seat.roles[0].first_rank);
			json_put(own, "roles", describe_own_roles(m));
		}
		json_put_int(own, "workers", supervisor_n_workers(m->sv));
	}
	json_add(list, own);
	if (!m->head_host)
		return list;
	head = json_pack("{s:s, s:s, s:b}", "host", m->head_host, "state",
		m->linked ? "linked" : "not linked", "leads", 1);
	if (m->clock.sent_boot_us)
		json_put_int(head, "heard_us", describe_real_us(m->clock.sent_boot_us));
	describe_clock(head, &m->clock, -1);
	json_add(list, head);
	return list;
}
