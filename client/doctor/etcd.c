/* SPDX-License-Identifier: Apache-2.0 */
#include "client/doctor/doctor.h"
#include "client/doctor/etcd_wait.h"
#include "common/base/clock.h"
#include "common/etcd/from_spec.h"
#include "common/text/endpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	LIMIT_MOST_MS = 5000,
	LEASE_S = 5, /* of the key that is tried: it goes also where this program is killed */
	WRITES = 8,
};

int64_t doctor_etcd_limit_ms(const struct doctor *d)
{
	int64_t beat = d->spec->rendezvous.lease_ms / 5;

	return beat < LIMIT_MOST_MS ? beat : LIMIT_MOST_MS;
}

/* --- endpoints --- */

/* Asks one endpoint alone. */
static void call_endpoint(struct doctor *d, char *endpoint, struct etcd_wait *w)
{
	_cleanup_(etcd_freep) struct etcd *e = NULL;
	struct spec_rendezvous z = d->spec->rendezvous;
	struct error err = { 0 };

	*w = (struct etcd_wait){ .loop = d->loop };
	z.endpoints = endpoint;
	if (etcd_new_from_spec(d->loop, &z, &e, &err) < 0) {
		w->status = STATUS_INVALID_ARGUMENT;
		snprintf(w->text, sizeof(w->text), "%s", err.text);
		return;
	}
	(void)etcd_wait_for(w, etcd_status(e, doctor_etcd_limit_ms(d), etcd_wait_answer, w, NULL));
}

/* Why it failed, without the endpoint's name before it. */
static const char *why_failed(const char *endpoint, const struct etcd_wait *w)
{
	const char *name = endpoint_without_scheme(endpoint);
	size_t len = strlen(name);

	return strncmp(w->text, name, len) || strncmp(w->text + len, ": ", 2) ? w->text
									      : w->text + len + 2;
}

/* other: the first endpoint that works, whose cluster all should be of. others: there is one. */
static void report_endpoint(struct doctor *d, const char *endpoint, const struct etcd_wait *w,
	const struct etcd_wait *other, bool others)
{
	if (w->status != STATUS_OK)
		doctor_found(d, others ? DOCTOR_WARNING : DOCTOR_PROBLEM, "etcd", endpoint, NULL,
			"%s", why_failed(endpoint, w));
	else if (w->cluster != other->cluster)
		doctor_found(d, DOCTOR_PROBLEM, "etcd", endpoint,
			"name members of one cluster only",
			"is of another cluster (%" PRIx64 ") than the first one (%" PRIx64 ")",
			w->cluster, other->cluster);
	else if (!w->leader)
		doctor_found(d, others ? DOCTOR_WARNING : DOCTOR_PROBLEM, "etcd", endpoint,
			"see whether more than half of its members run and reach each other",
			"version %s, has no leader", w->version);
	else if (w->no_space)
		doctor_found(d, DOCTOR_PROBLEM, "etcd", endpoint,
			"etcdctl compact, etcdctl defrag, then etcdctl alarm disarm",
			"version %s, is full (NOSPACE) and takes no writes", w->version);
	else if (w->corrupt)
		doctor_found(d, DOCTOR_PROBLEM, "etcd", endpoint,
			"replace the member that is corrupt, then etcdctl alarm disarm",
			"version %s, a member's data is corrupt", w->version);
	else
		doctor_found(d, DOCTOR_OK, "etcd", endpoint, NULL,
			"version %s, led by member %" PRIx64, w->version, w->leader);
}

/* Returns whether one endpoint works. */
static bool check_endpoints(struct doctor *d)
{
	size_t n = 0, answered = 0;
	_cleanup_free_ char **list = etcd_endpoints(d->spec->rendezvous.endpoints, &n);
	_cleanup_free_ struct etcd_wait *all = calloc(n + 1, sizeof(*all));
	const struct etcd_wait *first = NULL;

	for (size_t i = 0; list && all && i < n; i++) {
		call_endpoint(d, list[i], &all[i]);
		if (all[i].status != STATUS_OK || !all[i].leader)
			continue;
		answered++;
		first = first ? first : &all[i];
	}
	for (size_t i = 0; list && all && i < n; i++)
		report_endpoint(d, list[i], &all[i], first ? first : &all[i], answered > 0);
	return answered;
}

/* --- rights and latency --- */

/* A key that is put and deleted, as those of a group. */
struct trial {
	struct doctor *d;
	struct etcd *etcd;
	int64_t lease;
	char *below, *end, *key; /* "PREFIX/ID/", and the key below it */
	size_t n;		 /* keys of a group that were there */
	int64_t us[WRITES];	 /* how long writes took */
};

static void trial_fini(struct trial *t)
{
	etcd_free(t->etcd);
	free(t->below);
	free(t->end);
	free(t->key);
}

static bool trial_failed(const struct trial *t, const char *what, const struct etcd_wait *w)
{
	doctor_found(t->d, DOCTOR_PROBLEM, "etcd-rights", t->below,
		w->status == STATUS_PERMISSION_DENIED
			? "etcdctl role grant-permission ROLE readwrite --prefix=true PREFIX/"
			: NULL,
		"%s: %s", what, w->text);
	return false;
}

static bool trial_txn(struct trial *t, const struct etcd_op *op, struct etcd_wait *w)
{
	const struct etcd_txn txn = { .then_ops = op, .n_then = 1 };

	*w = (struct etcd_wait){ .loop = t->d->loop };
	return etcd_wait_for(
		w, etcd_txn(t->etcd, &txn, doctor_etcd_limit_ms(t->d), etcd_wait_answer, w, NULL));
}

/* Returns whether all of it was permitted, and worked. */
static bool trial_run(struct trial *t)
{
	const struct etcd_op get = { .kind = ETCD_GET, .key = t->below, .end = t->end },
			     drop = { .kind = ETCD_DELETE, .key = t->key };
	struct etcd_op put = { .kind = ETCD_PUT, .key = t->key, .value = "doctor", .len = 6 };
	struct etcd_wait w = { .loop = t->d->loop };
	bool ok = trial_txn(t, &get, &w);

	t->n = w.n;
	etcd_wait_fini(&w);
	if (!ok)
		return trial_failed(t, "keys cannot be read", &w);
	w = (struct etcd_wait){ .loop = t->d->loop };
	if (!etcd_wait_for(&w, etcd_grant(t->etcd, LEASE_S, doctor_etcd_limit_ms(t->d),
				       etcd_wait_answer, &w, NULL)))
		return trial_failed(t, "no lease is granted", &w);
	t->lease = put.lease = w.lease;
	for (int i = 0; i < WRITES; i++) {
		int64_t begun_us = (int64_t)monotonic_us();

		if (!trial_txn(t, &put, &w))
			return trial_failed(t, "a key cannot be put", &w);
		t->us[i] = (int64_t)monotonic_us() - begun_us;
	}
	if (!trial_txn(t, &drop, &w))
		return trial_failed(t, "a key cannot be deleted", &w);
	doctor_found(t->d, DOCTOR_OK, "etcd-rights", t->below, NULL,
		"keys can be read, put and deleted there%s",
		t->n ? "; a group of this name has some" : "");
	return true;
}

static int trial_compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

static void trial_latency(struct trial *t)
{
	double beat = (double)t->d->spec->rendezvous.lease_ms / 5, median, worst;
	bool bad, slow;

	qsort(t->us, WRITES, sizeof(t->us[0]), trial_compare);
	median = (double)t->us[WRITES / 2] / 1000;
	worst = (double)t->us[WRITES - 1] / 1000;
	bad = median > beat / 2;
	slow = worst > beat / 4;
	doctor_found(t->d,
		bad    ? DOCTOR_PROBLEM
		: slow ? DOCTOR_WARNING
		       : DOCTOR_OK,
		"etcd-latency", NULL,
		bad || slow ? "a longer rendezvous.lease, or faster disks for etcd" : NULL,
		"writes take %.1f ms, at most %.1f ms; a fifth of the lease is %.0f ms", median,
		worst, beat);
}

static bool trial_init(struct trial *t, struct error *err)
{
	const struct spec_rendezvous *z = &t->d->spec->rendezvous;

	if (etcd_new_from_spec(t->d->loop, z, &t->etcd, err) < 0)
		return false;
	if (asprintf(&t->below, "%s/%s/", z->prefix, z->id) < 0)
		t->below = NULL;
	t->end = t->below ? etcd_prefix_end(t->below) : NULL;
	if (!t->below || asprintf(&t->key, "%sdoctor/trial-%d", t->below, (int)getpid()) < 0)
		t->key = NULL;
	return t->end && t->key;
}

static void check_password(struct doctor *d)
{
	const struct spec_rendezvous *z = &d->spec->rendezvous;
	bool plain = !(z->tls_ca || z->tls_cert) && !strstr(z->endpoints, "https://");

	if (z->user && (plain || strstr(z->endpoints, "http://")))
		doctor_found(d, DOCTOR_WARNING, "etcd-password", z->user,
			"name etcd's addresses with https://", "goes over the network unencrypted");
}

bool doctor_check_etcd(struct doctor *d)
{
	_cleanup_(trial_fini) struct trial t = { .d = d };
	struct etcd_wait w = { .loop = d->loop };
	struct error err = { 0 };
	bool works;

	check_password(d);
	if (!check_endpoints(d))
		return false;
	if (!trial_init(&t, &err)) {
		doctor_found(d, DOCTOR_PROBLEM, "etcd-rights", NULL, NULL, "%s",
			*err.text ? err.text : "out of memory");
		return false;
	}
	works = trial_run(&t);
	if (works)
		trial_latency(&t);
	if (t.lease)
		(void)etcd_wait_for(&w, etcd_revoke(t.etcd, t.lease, doctor_etcd_limit_ms(d),
						etcd_wait_answer, &w, NULL));
	return works;
}
