/* SPDX-License-Identifier: Apache-2.0 */
#include "client/doctor/etcd_wait.h"
#include "client/doctor/meeting.h"
#include "common/etcd/from_spec.h"
#include "common/text/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The key "doctor" below the group's others says where the head of the meeting is. A host that
 * finds none puts it, on a lease that is kept alive until the meeting is over: a head that dies
 * leaves it for PLACE_LEASE_S at most.
 */

enum { PLACE_LEASE_S = 6, PLACE_KEEP_MS = 2000 };

struct meeting_place {
	struct doctor *doctor;
	struct etcd *etcd;
	struct loop_timer *keep;
	char *key;
	int64_t lease;
};

static void on_kept_alive(void *arg, const struct etcd_answer *a)
{
	/* when it is over, others find another head, or none */
}

static void keep_alive(void *arg)
{
	struct meeting_place *p = arg;

	(void)!etcd_keep_alive(
		p->etcd, &p->lease, 1, doctor_etcd_limit_ms(p->doctor), on_kept_alive, p, NULL);
	loop_timer_arm(p->keep, PLACE_KEEP_MS);
}

static int place_new(struct meeting *m, struct error *err)
{
	const struct spec_rendezvous *z = &m->doctor->spec->rendezvous;
	struct etcd_wait w = { .loop = m->loop };
	struct meeting_place *p;
	int r;

	meeting_place_free(m->place); /* of a try that failed */
	m->place = p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->doctor = m->doctor;
	r = etcd_new_from_spec(m->loop, z, &p->etcd, err);
	if (r == 0)
		r = loop_timer_new(m->loop, keep_alive, p, &p->keep);
	if (r == 0 && asprintf(&p->key, "%s/%s/doctor", z->prefix, z->id) < 0)
		p->key = NULL;
	if (r < 0 || !p->key)
		return r < 0 ? r : -ENOMEM;
	if (!etcd_wait_for(&w, etcd_grant(p->etcd, PLACE_LEASE_S, doctor_etcd_limit_ms(m->doctor),
				       etcd_wait_answer, &w, NULL)))
		return error_set(err, -EAGAIN, "%s", w.text);
	p->lease = w.lease;
	loop_timer_arm(p->keep, PLACE_KEEP_MS);
	return 0;
}

/* {"address", "port"} of the head. */
static int place_read(const char *text, struct sockaddr_storage *ret, struct error *err)
{
	_cleanup_json_ json_t *at = NULL;
	struct doctor_addresses a;
	const char *why;
	int r = json_parse_object(text, strlen(text), &at, err);

	if (r < 0)
		return r;
	why = doctor_look_up(
		json_get_string(at, "address", ""), (int)json_get_int(at, "port", 0), &a);
	if (why)
		return error_set(err, -EAGAIN, "%s: %s", json_get_string(at, "address", ""), why);
	*ret = a.at[0];
	return 0;
}

/* Puts own where there is no head, or else reads who it is. */
static bool place_claim(struct meeting *m, const char *own, struct etcd_wait *w)
{
	const struct meeting_place *p = m->place;
	const struct etcd_compare none = { p->key, 0 };
	const struct etcd_op get = { .kind = ETCD_GET, .key = p->key };
	const struct etcd_op put = {
		.kind = ETCD_PUT, .key = p->key, .value = own, .len = strlen(own), .lease = p->lease
	};
	const struct etcd_txn t = { .compares = &none,
		.n_compares = 1,
		.then_ops = &put,
		.n_then = meeting_may_lead(m) ? 1 : 0,
		.else_ops = &get,
		.n_else = 1 };

	return etcd_wait_for(w,
		etcd_txn(p->etcd, &t, doctor_etcd_limit_ms(m->doctor), etcd_wait_answer, w, NULL));
}

int meeting_place_find(struct meeting *m, struct sockaddr_storage *ret, struct error *err)
{
	_cleanup_(etcd_wait_fini) struct etcd_wait w = { .loop = m->loop };
	_cleanup_free_ char *own = NULL;
	int r = m->place && m->place->lease ? 0 : place_new(m, err);

	if (r < 0)
		return r;
	if (asprintf(&own, "{\"address\":\"%s\",\"port\":%d}", m->doctor->address, m->port) < 0) {
		own = NULL;
		return -ENOMEM;
	}
	if (!place_claim(m, own, &w))
		return error_set(err, -EAGAIN, "%s", w.text);
	if (w.succeeded && !meeting_may_lead(m))
		return error_set(err, -EAGAIN, "no host that may lead has come");
	if (w.succeeded && !m->leads && (r = meeting_lead(m, -1, err)) < 0)
		return r;
	return place_read(w.succeeded || !w.value ? own : w.value, ret, err);
}

void meeting_place_free(struct meeting_place *p)
{
	struct etcd_wait w = { .loop = p ? p->doctor->loop : NULL };

	if (!p)
		return;
	loop_timer_free(p->keep);
	if (p->lease)
		(void)etcd_wait_for(
			&w, etcd_revoke(p->etcd, p->lease, doctor_etcd_limit_ms(p->doctor),
				    etcd_wait_answer, &w, NULL));
	etcd_free(p->etcd);
	free(p->key);
	free(p);
}
