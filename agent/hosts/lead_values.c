/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hosts/head.h"
#include "agent/hosts/lead.h"
#include "common/base/log.h"
#include "common/text/json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/*
 * The values of keys in etcd: JSON objects. Another version of this program may have written one,
 * so that members may be missing, and unknown ones there.
 */

enum { LEAD_REQUEST_MS = 5000 }; /* at most, for one request */

int lead_make_keys(struct lead *l)
{
	static const char *const names[LEAD_N_NAMES] = { "lead", "run", "state", "end", "edition",
		"kv/", "kv0", "waiting/", "waiting0", "" };
	const struct spec_rendezvous *z = &l->hosts->spec->rendezvous;

	for (int i = 0; i < LEAD_N_NAMES; i++)
		if (asprintf(&l->keys[i], "%s/%s/%s", z->prefix, z->id, names[i]) < 0) {
			l->keys[i] = NULL;
			return -ENOMEM;
		}
	return 0;
}

void lead_entry_fini(struct lead_entry *e)
{
	json_decref(e->value);
	*e = (struct lead_entry){ 0 };
}

int lead_entry_read(struct lead_entry *e, const struct etcd_result *result)
{
	const struct etcd_entry *found = result->n ? &result->entries[0] : NULL;
	int64_t before = e->revision;
	json_error_t at;

	lead_entry_fini(e);
	if (!found)
		return 0;
	e->revision = found->mod_revision;
	e->lease = found->lease;
	e->value = json_loadb(found->value, found->len, JSON_REJECT_DUPLICATES, &at);
	if (json_is_object(e->value))
		return 0;
	if (e->revision != before)
		log_warning("etcd: the value of %s is not a JSON object", found->key);
	json_decref(e->value);
	e->value = json_object();
	return e->value ? 0 : -ENOMEM;
}

enum { LEAD_MOST = 1 << 30 }; /* rounds, attempts or terms of a group */

int64_t lead_number(const json_t *value, const char *key, int64_t none)
{
	int64_t n = json_get_int(value, key, none);

	return n < 0 || n > LEAD_MOST ? none : n;
}

json_t *lead_json(const struct lead *l, const char *address)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:I}", "agent", l->hosts->agent, "run",
		supervisor_options(l->hosts->sv)->run, "host", supervisor_host(l->hosts->sv),
		"address", address, "term", (json_int_t)l->term);
}

json_t *lead_run_json(const char *secret, const json_t *settings)
{
	return json_pack("{s:s, s:O}", "secret", secret, "settings", settings);
}

static json_t *values_host(const struct round_host *host, int rank)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:i, s:s*}", "run", host->run, "agent", host->agent,
		"boot", host->boot, "name", host->name, "group_rank", rank, "topology",
		host->topology);
}

/* Takes hosts; failed: not all of them could be added. */
static json_t *values_state(
	const struct head *h, int64_t term, int attempt, json_t *hosts, bool failed)
{
	json_t *all = json_pack("{s:I, s:I, s:i, s:o*, s:o*, s:s}", "term", (json_int_t)term,
		"round", (json_int_t)round_number(h->round), "attempt", attempt, "budget",
		restart_save(&h->budget), "quarantine",
		quarantine_save(&h->quarantine, hosts_now_ms(), loop_real_us() / 1000), "head",
		supervisor_options(h->hosts->sv)->run);

	if (json_put(all, "hosts", hosts) == 0 && !failed)
		return all;
	json_decref(all);
	return NULL;
}

json_t *lead_state_json(const struct head *h, int64_t term)
{
	const struct round_host *host = NULL;
	json_t *list = json_array();
	bool failed = false;

	while ((host = round_next_host(h->round, host)))
		if (head_may_have_workers(h, host))
			failed |= json_add(list, values_host(host, host->group_rank)) < 0;
	return values_state(
		h, term, h->attempt + (round_state(h->round) == ROUND_RECORDING), list, failed);
}

json_t *lead_state_now(const struct head *h, int64_t term, const char *without)
{
	const struct round_host *host = NULL;
	json_t *list = json_array();
	bool failed = false;

	while ((host = round_next_host(h->round, host)))
		if (host->state != HOST_GONE && host->last_round && strcmp(host->run, without) != 0)
			failed |= json_add(list, values_host(host, host->last_rank)) < 0;
	return values_state(h, term, h->attempt, list, failed);
}

/* --- trouble with etcd --- */

int64_t lead_limit_ms(const struct lead *l)
{
	int64_t fifth = l->hosts->spec->rendezvous.lease_ms / 5;

	return fifth < LEAD_REQUEST_MS ? fifth : LEAD_REQUEST_MS;
}

int64_t lead_ttl_s(const struct lead *l)
{
	return (l->hosts->spec->rendezvous.lease_ms + 999) / 1000;
}

void lead_report(struct lead *l, const char *text)
{
	if (text && strncmp(text, l->reported, sizeof(l->reported) - 1) != 0)
		log_warning("etcd: %s", text);
	else if (!text && *l->reported)
		log_notice("etcd answers again");
	snprintf(l->reported, sizeof(l->reported), "%s", text ? text : "");
}
