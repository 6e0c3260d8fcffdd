/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hosts/head.h"
#include "agent/hosts/lead.h"
#include "agent/hosts/member.h"
#include "common/base/local_address.h"
#include "common/base/log.h"
#include "common/base/random.h"
#include "common/base/socket_address.h"
#include "common/text/endpoint.h"
#include "common/text/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Claims the lead. Each step follows from the answer to the one before: finds this host's address,
 * asks etcd for a lease, looks once more, makes a candidate, which is a head that listens but does
 * not lead yet, and sends the transaction that decides.
 *
 * A head claims its lead again when etcd no longer has it: the lease has ended while etcd was away,
 * etcd has lost its data, or an operator has removed the key. The head learns that from a watch,
 * and from each write that etcd refuses.
 */

/* The link that this host has made with that secret ends, too. */
static void claim_drop_secret(struct lead *l)
{
	if (l->hosts->tls && l->hosts->member->link)
		member_leave_head(l->hosts->member);
	l->hosts->tls = link_tls_free(l->hosts->tls);
}

/* Another host may have made a new secret since this one has last looked. */
int lead_take_secret(struct lead *l, struct error *err)
{
	const char *secret = json_get_string(l->seen[LEAD_RUN].value, "secret", NULL);
	const struct spec_rendezvous *z = &l->hosts->spec->rendezvous;
	const struct link_tls_options o = { .token = z->token_file ? NULL : secret,
		.token_file = z->token_file };

	/* After etcd has lost its data, another secret may have the revision of this one: compare
	 * the texts. */
	if (l->hosts->tls &&
		(z->token_file || (secret && !strncmp(l->secret, secret, HOSTS_SECRET - 1))))
		return 0;
	claim_drop_secret(l);
	if (!secret && !z->token_file)
		return error_set(err, -EPROTO, "%s in etcd has no secret", l->keys[LEAD_RUN]);
	if (secret)
		snprintf(l->secret, sizeof(l->secret), "%s", secret);
	return link_tls_new(&o, &l->hosts->tls, err);
}

static void claim_failed(struct lead *l, const char *text)
{
	l->candidate = head_free(l->candidate);
	l->own_lease = 0;
	if (text)
		lead_report(l, text);
	l->slow = l->reported_claim = text;
	lead_post(l, LEAD_EV_BEATEN);
}

static void claim_answered(void *arg, const struct etcd_answer *a)
{
	struct lead *l = arg;

	l->call = NULL;
	if (a->status != STATUS_OK && a->maybe) {
		lead_report(l, a->text);
		lead_post(l, LEAD_EV_UNSURE);
	} else if (a->status != STATUS_OK) {
		claim_failed(l, a->text);
	} else if (!a->succeeded) {
		claim_failed(l, NULL);
	} else {
		l->revision = a->revision;
		if (!l->seen[LEAD_RUN].value) {
			l->seen[LEAD_RUN].revision = a->revision;
			l->seen[LEAD_RUN].value = lead_run_json(l->secret, l->candidate->settings);
		}
		lead_post(l, LEAD_EV_WON);
	}
}

/* The values of lead, and of run if etcd has none yet: owned texts. */
static int claim_values(struct lead *l, char **ret_lead, char **ret_run)
{
	_cleanup_json_ json_t *run = NULL, *lead = NULL;
	char address[SOCKET_ADDRESS_MAX];
	size_t len;

	link_listen_address(l->candidate->listen, address);
	lead = lead_json(l, address);
	*ret_lead = lead ? json_dump_text(lead, &len) : NULL;
	if (!*ret_lead)
		return -ENOMEM;
	if (l->seen[LEAD_RUN].value)
		return 0;
	run = lead_run_json(l->secret, l->candidate->settings);
	*ret_run = run ? json_dump_text(run, &len) : NULL;
	return *ret_run ? 0 : -ENOMEM;
}

static struct etcd_compare claim_unchanged(const struct lead *l, enum lead_key key)
{
	return (struct etcd_compare){ .key = l->keys[key], .mod_revision = l->seen[key].revision };
}

static void claim_send(struct lead *l)
{
	_cleanup_free_ char *lead = NULL, *run = NULL;
	const struct etcd_compare compares[] = { claim_unchanged(l, LEAD_KEY),
		claim_unchanged(l, LEAD_RUN), claim_unchanged(l, LEAD_STATE),
		claim_unchanged(l, LEAD_END) };
	struct etcd_op puts[3];
	struct etcd_txn t = { .compares = compares,
		.n_compares = sizeof(compares) / sizeof(compares[0]),
		.then_ops = puts };
	int r = claim_values(l, &lead, &run);

	if (r == 0) {
		puts[t.n_then++] = (struct etcd_op){ .kind = ETCD_PUT,
			.key = l->keys[LEAD_KEY],
			.value = lead,
			.len = strlen(lead),
			.lease = l->own_lease };
		if (run)
			puts[t.n_then++] = (struct etcd_op){ .kind = ETCD_PUT,
				.key = l->keys[LEAD_RUN],
				.value = run,
				.len = strlen(run),
				.lease = l->group_lease };
		if (l->seen[LEAD_END].value) /* of an earlier group of that name */
			puts[t.n_then++] =
				(struct etcd_op){ .kind = ETCD_DELETE, .key = l->keys[LEAD_END] };
		r = etcd_txn(l->etcd, &t, lead_limit_ms(l), claim_answered, l, &l->call);
	}
	if (run)
		explicit_bzero(run, strlen(run));
	if (r < 0)
		claim_failed(l, strerror(-r));
}

/* The first host of a group makes its secret. */
static int claim_secret(struct lead *l, struct error *err)
{
	const struct spec_rendezvous *z = &l->hosts->spec->rendezvous;
	const struct link_tls_options o = { .token = l->secret };

	claim_drop_secret(l);
	if (random_hex(l->secret, HOSTS_SECRET - 1) < 0)
		return error_set(err, -EIO, "no random numbers");
	return z->token_file ? 0 : link_tls_new(&o, &l->hosts->tls, err);
}

/* Makes the candidate. */
static int claim_listen(struct lead *l, struct error *err)
{
	const json_t *state = l->seen[LEAD_STATE].value;
	int r = l->seen[LEAD_RUN].value ? lead_take_secret(l, err) : claim_secret(l, err);

	if (r < 0)
		return r;
	r = head_new(l->hosts, &l->addresses, state, &l->candidate, err);
	for (size_t i = 0; r == -EADDRINUSE && i < l->addresses.n; i++) /* another group's head */
		socket_address_set_port(&l->addresses.at[i], 0);
	return r == -EADDRINUSE ? head_new(l->hosts, &l->addresses, state, &l->candidate, err) : r;
}

static void claim_looked(void *arg, const struct etcd_answer *a)
{
	struct lead *l = arg;
	const struct lead_entry *lead = &l->seen[LEAD_KEY];
	int64_t terms[2];
	struct error err = { 0 };

	l->call = NULL;
	if (a->status != STATUS_OK || lead_look_read(l, a) < 0) {
		claim_failed(l, a->status != STATUS_OK ? a->text : "out of memory");
		return;
	}
	if (lead->revision && strcmp(json_get_string(lead->value, "agent", ""), l->dead) != 0) {
		claim_failed(l, NULL);
		return;
	}
	terms[0] = lead_number(lead->value, "term", 0);
	terms[1] = lead_number(l->seen[LEAD_STATE].value, "term", 0);
	l->term = (terms[0] > terms[1] ? terms[0] : terms[1]) + 1;
	if (l->seen[LEAD_RUN].value)
		l->group_lease = l->seen[LEAD_RUN].lease;
	if (claim_listen(l, &err) < 0)
		claim_failed(l, err.text);
	else
		claim_send(l);
}

static void claim_granted(void *arg, const struct etcd_answer *a)
{
	struct lead *l = arg;

	l->call = NULL;
	if (a->status != STATUS_OK) {
		claim_failed(l, a->text);
		return;
	}
	if (l->own_lease)
		l->group_lease = a->leases[0].id;
	else
		l->own_lease = a->leases[0].id;
	if (!l->group_lease && !l->seen[LEAD_RUN].value) {
		if (etcd_grant(l->etcd, LEAD_GROUP_TTL_S, lead_limit_ms(l), claim_granted, l,
			    &l->call) < 0)
			claim_failed(l, "out of memory");
	} else if (lead_look_send(l, claim_looked) < 0) {
		claim_failed(l, "out of memory");
	}
}

static void claim_grant(struct lead *l)
{
	l->own_lease = l->group_lease = 0;
	l->granted_ms = hosts_now_ms();
	if (etcd_grant(l->etcd, lead_ttl_s(l), lead_limit_ms(l), claim_granted, l, &l->call) < 0)
		claim_failed(l, "out of memory");
}

static void claim_take_addresses(struct lead *l, const struct link_addresses *a)
{
	if (l->hosts->address)
		l->addresses = *a;
	for (size_t i = 0; !l->hosts->address && i < a->n; i++)
		if (local_address_towards((const struct sockaddr *)&a->at[i],
			    &l->addresses.at[l->addresses.n]) == 0)
			l->addresses.n++;
	for (size_t i = 0; i < l->addresses.n; i++)
		socket_address_set_port(&l->addresses.at[i], ENDPOINT_PORT);
}

static void claim_resolved(void *arg, const struct link_addresses *a, const struct error *why)
{
	struct lead *l = arg;
	struct error err = { .text = "this host has no address that reaches it" };

	l->addresses = (struct link_addresses){ 0 };
	if (why)
		err = *why;
	else
		claim_take_addresses(l, a);
	l->resolve = link_resolve_free(l->resolve);
	if (l->addresses.n) {
		claim_grant(l);
		return;
	}
	l->endpoint++;
	claim_failed(l, err.text);
}

/* The next one of etcd's endpoints; after the last comes the first. */
static int claim_endpoint(struct lead *l, struct endpoint *ret, struct error *err)
{
	size_t n = 0;
	_cleanup_free_ char **endpoints = etcd_endpoints(l->hosts->spec->rendezvous.endpoints, &n);

	if (!endpoints)
		return error_set(err, -ENOMEM, "out of memory");
	return endpoint_parse(endpoint_without_scheme(endpoints[l->endpoint % n]),
		"rendezvous.endpoints", ret, err);
}

/* Begins with the address that was given for this host, or those from which it reaches etcd. */
void lead_claim(struct lead *l)
{
	struct error err = { 0 };
	struct endpoint e = { .port = ENDPOINT_PORT };
	int r = 0;

	l->candidate = head_free(l->candidate); /* of a claim that etcd did not answer */
	if (l->hosts->address)
		snprintf(e.host, sizeof(e.host), "%s", l->hosts->address);
	else
		r = claim_endpoint(l, &e, &err);
	if (r == 0)
		r = link_resolve_new(
			supervisor_loop(l->hosts->sv), &e, claim_resolved, l, &l->resolve);
	if (r < 0)
		claim_failed(l, *err.text ? err.text : strerror(-r));
}

/* --- a lead that is gone --- */

enum { FOUND_LEAD, FOUND_STATE, FOUND_RUN, N_FOUND };

int lead_write(struct lead *l, struct etcd_txn *t, etcd_fn fn)
{
	const struct etcd_op gets[N_FOUND] = {
		[FOUND_LEAD] = { .kind = ETCD_GET, .key = l->keys[LEAD_KEY] },
		[FOUND_STATE] = { .kind = ETCD_GET, .key = l->keys[LEAD_STATE] },
		[FOUND_RUN] = { .kind = ETCD_GET, .key = l->keys[LEAD_RUN] },
	};

	t->else_ops = gets;
	t->n_else = N_FOUND;
	return etcd_txn(l->etcd, t, lead_limit_ms(l), fn, l, &l->write);
}

/* Another host certainly leads. */
static void regain_lost(struct lead *l)
{
	tenure_lost(&l->tenure);
	l->until_ms = 0;
	lead_lost(l, "another host leads");
}

static bool regain_is_own(const struct lead *l, const struct lead_entry *lead)
{
	return lead->value && !strcmp(json_get_string(lead->value, "agent", ""), l->hosts->agent) &&
	       json_get_int(lead->value, "term", 0) == l->term;
}

static enum tenure_found regain_found(int64_t revision, bool known)
{
	return known ? TENURE_KNOWN : revision ? TENURE_OTHER : TENURE_NONE;
}

static enum tenure_right regain_check(struct lead *l, const struct lead_entry *state)
{
	const struct lead_entry *lead = &l->seen[LEAD_KEY];
	/* etcd may have carried out a write that it did not answer. */
	bool wrote = json_get_int(state->value, "term", 0) == l->term &&
		     !strcmp(json_get_string(state->value, "head", ""),
			     supervisor_options(l->hosts->sv)->run);
	struct tenure_keys keys = {
		.lead = lead->revision <= l->gone ? TENURE_NONE
			: regain_is_own(l, lead)  ? TENURE_KNOWN
						  : TENURE_OTHER,
		.state = regain_found(
			state->revision, wrote || state->revision == l->state_revision),
		.run = regain_found(l->old_run, l->old_run == l->seen[LEAD_RUN].revision),
		.waits = head_warn_missing(l->hosts->head),
	};

	return tenure_check(&keys);
}

bool lead_check_refused(struct lead *l, const struct etcd_answer *a)
{
	const struct etcd_result *run = &a->results[FOUND_RUN];
	struct lead_entry state = { 0 };
	enum tenure_right verdict;

	if (lead_entry_read(&l->seen[LEAD_KEY], &a->results[FOUND_LEAD]) < 0 ||
		lead_entry_read(&state, &a->results[FOUND_STATE]) < 0)
		return false; /* no memory: another try will tell */
	l->old_state = state.revision;
	l->old_run = run->n ? run->entries[0].mod_revision : 0;
	verdict = regain_check(l, &state);
	lead_entry_fini(&state);
	if (verdict == TENURE_LEADS) {
		l->revision = l->seen[LEAD_KEY].revision;
		l->own_lease = l->seen[LEAD_KEY].lease;
		if (run->n)
			l->group_lease = run->entries[0].lease;
		return true;
	}
	l->rewrites_all |= verdict == TENURE_RECLAIM_ALL;
	if (verdict == TENURE_OVER || l->leaving == LEAD_REMOVES)
		regain_lost(l);
	else if (!l->regains)
		lead_regain(l);
	else
		lead_regain_try(l);
	return false;
}

/* --- writing it again --- */

static void regain_failed(struct lead *l, const char *text)
{
	lead_report(l, text);
	if (l->regains)
		l->own_lease = 0; /* another try comes with the next keep-alive */
}

/* The other keys of this host follow. */
static void regain_refill(struct lead *l)
{
	l->seen[LEAD_RUN].revision = l->revision;
	l->edition_due = l->edition;
	lead_keys_refill(l);
}

static void regain_written(void *arg, const struct etcd_answer *a)
{
	struct lead *l = arg;

	l->write = NULL;
	if (a->status != STATUS_OK) {
		regain_failed(l, a->text);
		return;
	}
	if (a->succeeded && a->revision <= l->gone) {
		lead_regain(l);
		return;
	}
	if (a->succeeded) {
		l->revision = a->revision;
		l->state_revision =
			l->rewrites_all && l->state_revision ? a->revision : l->old_state;
		lead_kept(l, l->granted_ms, lead_ttl_s(l));
	} else if (lead_check_refused(l, a)) { /* an earlier try has written it */
		l->state_revision = l->old_state;
	} else {
		return;
	}
	if (l->rewrites_all)
		regain_refill(l);
	log_notice("etcd had lost who leads; it has this host again");
	l->regains = l->rewrites_all = false;
	l->gone = 0;
	head_admit_waiting(l->hosts->head);
	lead_arm(l);
	lead_flush(l);
}

/* The value of a key; owned. While this host waits for hosts of the head before, state stays as it
 * was. */
static json_t *regain_value(struct lead *l, enum lead_key key)
{
	char address[SOCKET_ADDRESS_MAX];

	if (key == LEAD_STATE && l->recorded)
		return lead_state_now(l->hosts->head, l->term, "");
	if (key != LEAD_KEY)
		return json_incref(l->seen[key].value);
	link_listen_address(l->hosts->head->listen, address);
	return lead_json(l, address);
}

static int regain_write(struct lead *l)
{
	static const enum lead_key keys[] = { LEAD_KEY, LEAD_RUN, LEAD_STATE };
	const struct etcd_compare compares[] = { { l->keys[LEAD_KEY], 0 },
		{ l->keys[LEAD_STATE], l->old_state }, { l->keys[LEAD_RUN], l->old_run } };
	struct etcd_op puts[3];
	char *texts[3];
	struct etcd_txn t = { .compares = compares, .n_compares = 3, .then_ops = puts };
	size_t n = !l->rewrites_all ? 1 : !l->state_revision ? 2 : 3;
	int r = 0;

	for (; t.n_then < n && r == 0; t.n_then++) {
		struct etcd_op *put = &puts[t.n_then];
		_cleanup_json_ json_t *value = regain_value(l, keys[t.n_then]);

		*put = (struct etcd_op){ .kind = ETCD_PUT,
			.key = l->keys[keys[t.n_then]],
			.lease = t.n_then ? l->group_lease : l->own_lease };
		put->value = texts[t.n_then] = value ? json_dump_text(value, &put->len) : NULL;
		r = put->value ? 0 : -ENOMEM;
	}
	if (r == 0)
		r = lead_write(l, &t, regain_written);
	for (size_t i = 0; i < t.n_then; i++) {
		if (texts[i])
			explicit_bzero(texts[i], puts[i].len);
		free(texts[i]);
	}
	return r;
}

static void regain_granted(void *arg, const struct etcd_answer *a)
{
	struct lead *l = arg;

	l->write = NULL;
	if (a->status != STATUS_OK) {
		regain_failed(l, a->text);
		return;
	}
	l->granted = l->own_lease;
	if (l->granted)
		l->group_lease = a->leases[0].id;
	else
		l->own_lease = a->leases[0].id;
	lead_regain_try(l);
}

/* Gets a lease for the lead, then one for the other keys if they are gone, then writes. */
static int regain_next(struct lead *l)
{
	if (l->own_lease && (!l->rewrites_all || l->granted))
		return regain_write(l);
	if (!l->own_lease)
		l->granted_ms = hosts_now_ms();
	return etcd_grant(l->etcd, l->own_lease ? LEAD_GROUP_TTL_S : lead_ttl_s(l),
		lead_limit_ms(l), regain_granted, l, &l->write);
}

void lead_regain(struct lead *l)
{
	l->regains = true;
	l->rewrites_all = l->granted = false;
	l->own_lease = 0;
	l->old_state = l->state_revision;
	l->old_run = l->seen[LEAD_RUN].revision;
	l->keep = etcd_cancel(l->keep); /* the lease may live */
	tenure_gone(&l->tenure, hosts_now_ms());
	lead_arm(l);
	lead_regain_try(l);
}

/* --- watching --- */

static void watch_checked(void *arg, const struct etcd_answer *a)
{
	struct lead *l = arg;

	l->write = NULL;
	if (a->status != STATUS_OK)
		return; /* the next keep-alive that etcd answers checks again */
	lead_watch(l, a->revision + 1);
	if (a->succeeded || lead_check_refused(l, a))
		lead_flush(l);
}

static int watch_check(struct lead *l)
{
	const struct etcd_compare own = { l->keys[LEAD_KEY], l->revision };
	struct etcd_txn t = { .compares = &own, .n_compares = 1 };

	return lead_write(l, &t, watch_checked);
}

void lead_regain_try(struct lead *l)
{
	int r = 0;

	if (l->write || l->leaving || l->lost)
		return;
	if (l->regains)
		r = regain_next(l);
	else if (!l->watch)
		r = watch_check(l);
	if (r < 0)
		regain_failed(l, "out of memory");
}

static void watch_event(struct lead *l, const struct etcd_event *e)
{
	const struct etcd_result put = { .entries = &e->entry, .n = 1 };
	struct lead_entry lead = { 0 };

	if (e->entry.mod_revision <= l->revision)
		return;
	if (e->deleted) {
		l->gone = e->entry.mod_revision;
		if (!l->regains)
			lead_regain(l);
	} else if (lead_entry_read(&lead, &put) == 0 && !regain_is_own(l, &lead)) {
		regain_lost(l);
	}
	lead_entry_fini(&lead);
}

static void watch_news(void *arg, const struct etcd_news *news)
{
	struct lead *l = arg;

	if (l->leaving || l->lost)
		return;
	if (news->kind == ETCD_WATCH_EVENTS)
		watch_event(l, &news->events[news->n - 1]);
	if (news->kind != ETCD_WATCH_GAP)
		return;
	l->watch = etcd_watch_free(l->watch);
	l->gone = 0; /* it may be another etcd */
	lead_regain_try(l);
}

void lead_watch(struct lead *l, int64_t revision)
{
	/* Without memory, each keep-alive checks. */
	if (!l->watch && etcd_watch_new(l->etcd, l->keys[LEAD_KEY], NULL, revision, watch_news, l,
				 &l->watch) < 0)
		log_error("out of memory: %s is not watched", l->keys[LEAD_KEY]);
}
