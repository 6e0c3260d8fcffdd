/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hosts/settings.h"

#include "common/base/cleanup.h"
#include "common/base/hash_chain.h"
#include "common/text/json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const settings_keys[] = { "restart", "stop", "leader", "heartbeat", "preemption",
	"queue", "mode", "max_run_time", "compat", "speed" };

static int settings_add(json_t *list, const char *key, json_t *value)
{
	_cleanup_json_ json_t *v = value ? value : json_null();
	_cleanup_free_ char *text = json_dumps(v, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
	json_t *one = text ? json_pack("{s:s, s:s}", "key", key, "value", text) : NULL;

	return json_add(list, one);
}

/* A role without its replicas, whose number is each host's own; full: the role of spec_to_json().
 */
static json_t *settings_role(const struct spec_role *role, const json_t *full)
{
	return json_pack("{s:s, s:b, s:b, s:b, s:O*}", "name", role->name, "leader", role->leader,
		"evaluator", role->evaluator, "recoverable", role->recoverable, "restart",
		json_object_get(full, "restart"));
}

static json_t *settings_nodes(const struct spec *spec)
{
	return json_sprintf("%d:%d", spec->rendezvous.nodes_min, spec->rendezvous.nodes_max);
}

json_t *settings_of(const struct spec *spec)
{
	_cleanup_json_ json_t *all = spec_to_json(spec), *roles = json_array();
	const json_t *rendezvous = json_object_get(all, "rendezvous");
	json_t *list = json_array();
	int r = settings_add(list, "rendezvous.nodes", settings_nodes(spec));

	if (!r)
		r = settings_add(list, "rendezvous.segment",
			json_incref(json_object_get(rendezvous, "segment")));
	if (!r)
		r = settings_add(list, "rendezvous.quarantine",
			json_incref(json_object_get(rendezvous, "quarantine")));
	/* From these a later head computes when workers of the one before are dead. */
	if (!r && spec->rendezvous.backend == SPEC_RENDEZVOUS_ETCD)
		r = settings_add(list, "rendezvous.lease",
			json_integer((json_int_t)spec->rendezvous.lease_ms));
	if (!r && spec->rendezvous.backend == SPEC_RENDEZVOUS_ETCD)
		r = settings_add(list, "rendezvous.store_loss",
			json_integer((json_int_t)spec->rendezvous.store_loss_ms));

	for (size_t i = 0; i < spec->n_roles && !r; i++)
		r = json_add(roles, settings_role(&spec->roles[i],
					    json_array_get(json_object_get(all, "roles"), i)));
	if (!r)
		r = settings_add(list, "roles", json_incref(roles));
	for (size_t i = 0; i < sizeof(settings_keys) / sizeof(settings_keys[0]) && !r; i++)
		r = settings_add(list, settings_keys[i],
			json_incref(json_object_get(all, settings_keys[i])));
	if (!r && all)
		return list;
	json_decref(list);
	return NULL;
}

char *settings_digest(const json_t *settings)
{
	_cleanup_free_ char *text = json_dumps(settings, JSON_COMPACT | JSON_SORT_KEYS);
	char *digest = NULL;

	if (!text || asprintf(&digest, "%016" PRIx64, chain_hash(text, strlen(text))) < 0)
		return NULL;
	return digest;
}

static const char *settings_find(const json_t *settings, const char *key)
{
	const json_t *one;
	size_t i;

	json_array_foreach (settings, i, one)
		if (!strcmp(json_get_string(one, "key", ""), key))
			return json_get_string(one, "value", "");
	return "none";
}

/* Two values that differ, and their key. */
struct difference {
	char key[128];
	const json_t *ours, *theirs; /* borrowed; NULL: that host has none */
};

static bool difference_is(struct difference *d, const json_t *ours, const json_t *theirs)
{
	if (ours == theirs || (ours && theirs && json_equal(ours, theirs)))
		return false;
	d->ours = ours;
	d->theirs = theirs;
	return true;
}

/* Goes on to the first key of `of` (ours or theirs) that differs. */
static bool difference_in_object(struct difference *d, const json_t *of)
{
	const json_t *ours = d->ours, *theirs = d->theirs;
	size_t len = strlen(d->key);
	json_t *value;
	const char *name;

	json_object_foreach ((json_t *)of, name, value) {
		if (!difference_is(d, json_object_get(ours, name), json_object_get(theirs, name)))
			continue;
		snprintf(d->key + len, sizeof(d->key) - len, ".%s", name);
		return true;
	}
	return false;
}

/* Goes on to the first part that differs. Returns false where only the whole of both does. */
static bool difference_descend(struct difference *d)
{
	const json_t *ours = d->ours, *theirs = d->theirs;
	size_t len = strlen(d->key);

	if (json_is_object(ours) && json_is_object(theirs))
		return difference_in_object(d, ours) || difference_in_object(d, theirs);
	if (json_array_size(ours) != json_array_size(theirs))
		return false;
	for (size_t i = 0; i < json_array_size(ours); i++) {
		if (!difference_is(d, json_array_get(ours, i), json_array_get(theirs, i)))
			continue;
		snprintf(d->key + len, sizeof(d->key) - len, "[%zu]", i);
		return true;
	}
	return false;
}

static char *settings_text(const json_t *value)
{
	return value ? json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY)
		     : strdup("none");
}

static int settings_name(const char *key, const char *ours, const char *theirs, const char *head,
	const char *host, struct error *err)
{
	_cleanup_json_ json_t *a = json_loads(ours, JSON_DECODE_ANY, NULL);
	_cleanup_json_ json_t *b = json_loads(theirs, JSON_DECODE_ANY, NULL);
	_cleanup_free_ char *mine = NULL, *other = NULL;
	struct difference d = { .ours = a, .theirs = b };

	snprintf(d.key, sizeof(d.key), "%s", key);
	while (difference_descend(&d))
		;
	mine = settings_text(d.ours);
	other = settings_text(d.theirs);
	return error_field(err, -EINVAL, d.key,
		"expected %.300s as on %.64s, which leads the group, got %.300s on %.64s",
		mine ? mine : ours, head, other ? other : theirs, host);
}

int settings_differ(const json_t *ours, const json_t *theirs, const char *head, const char *host,
	struct error *err)
{
	const json_t *one;
	size_t i;

	json_array_foreach (ours, i, one) {
		const char *key = json_get_string(one, "key", "");
		const char *mine = json_get_string(one, "value", "");
		const char *other = settings_find(theirs, key);

		if (strcmp(mine, other))
			return settings_name(key, mine, other, head, host, err);
	}
	return error_field(err, -EINVAL, "settings",
		"expected those of %.64s, which leads the group, got others on %.64s", head, host);
}
