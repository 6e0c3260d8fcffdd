/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hosts/settings.h"

#include "common/base/cleanup.h"
#include "common/text/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const settings_keys[] = { "restart", "stop", "leader", "heartbeat", "preemption",
	"queue", "mode", "max_run_time" };

static int settings_add(json_t *list, const char *key, json_t *value)
{
	_cleanup_json_ json_t *v = value ? value : json_null();
	_cleanup_free_ char *text = json_dumps(v, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
	json_t *one = text ? json_pack("{s:s, s:s}", "key", key, "value", text) : NULL;

	return json_add(list, one);
}

/* Of a role its name and what it is to the group; how many replicas a host has is its own. */
static json_t *settings_role(const struct spec_role *role)
{
	return json_pack("{s:s, s:b, s:b, s:b}", "name", role->name, "leader", role->leader,
		"evaluator", role->evaluator, "recoverable", role->recoverable);
}

static json_t *settings_nodes(const struct spec *spec)
{
	return json_sprintf("%d:%d", spec->rendezvous.nodes_min, spec->rendezvous.nodes_max);
}

json_t *settings_of(const struct spec *spec)
{
	_cleanup_json_ json_t *all = spec_to_json(spec), *roles = json_array();
	json_t *list = json_array();
	int r = settings_add(list, "rendezvous.nodes", settings_nodes(spec));

	for (size_t i = 0; i < spec->n_roles && !r; i++)
		r = json_add(roles, settings_role(&spec->roles[i]));
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
	return json_dumps(settings, JSON_COMPACT | JSON_SORT_KEYS);
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

int settings_differ(const json_t *ours, const json_t *theirs, const char *host, struct error *err)
{
	const json_t *one;
	size_t i;

	json_array_foreach (ours, i, one) {
		const char *key = json_get_string(one, "key", "");
		const char *mine = json_get_string(one, "value", "");
		const char *other = settings_find(theirs, key);

		if (!strcmp(mine, other))
			continue;
		return error_field(err, -EINVAL, key,
			"expected %.300s as on the group's head, got %.300s on %.64s", mine, other,
			host);
	}
	return error_field(err, -EINVAL, "settings",
		"expected those of the group's head, got others on %.64s", host);
}
