/* SPDX-License-Identifier: Apache-2.0 */
#include "client/base/spec_diff.h"

#include "common/spec/spec.h"
#include "common/text/json.h"

#include <string.h>

enum { SPEC_PATH_MAX = 512 };

struct spec_diff {
	json_t *found;
	bool failed; /* without memory */
};

/* The members of a specification that has only what it must. NULL without memory. */
static json_t *diff_defaults(void)
{
	_cleanup_json_ json_t *doc = json_pack("{s:[{s:[s]}]}", "roles", "command", "true");
	_cleanup_(spec_freep) struct spec *spec = NULL;

	return doc && spec_parse(doc, &spec, NULL) == 0 ? spec_to_json(spec) : NULL;
}

static void diff_side(json_t *row, const char *side, const char *is_default, const json_t *value,
	const json_t *def)
{
	if (!value)
		return;
	json_put(row, side, json_deep_copy(value));
	if (def && json_equal(value, def))
		json_put(row, is_default, json_true());
}

static void diff_row(
	struct spec_diff *d, const char *path, const json_t *a, const json_t *b, const json_t *def)
{
	json_t *row = json_object();

	json_put(row, "path", json_string(path));
	diff_side(row, "old", "old_default", a, def);
	diff_side(row, "new", "new_default", b, def);
	if (!row || json_add(d->found, row) < 0)
		d->failed = true;
}

static void diff_values(
	struct spec_diff *d, const char *path, const json_t *a, const json_t *b, const json_t *def);

static void diff_member(struct spec_diff *d, const char *path, const char *key, const json_t *a,
	const json_t *b, const json_t *def)
{
	char at[SPEC_PATH_MAX];

	snprintf(at, sizeof(at), "%.255s%s%.200s", path, *path ? "." : "", key);
	diff_values(
		d, at, json_object_get(a, key), json_object_get(b, key), json_object_get(def, key));
}

static void diff_objects(
	struct spec_diff *d, const char *path, const json_t *a, const json_t *b, const json_t *def)
{
	const char *key;
	json_t *value;

	json_object_foreach ((json_t *)a, key, value)
		diff_member(d, path, key, a, b, def);
	json_object_foreach ((json_t *)b, key, value)
		if (!json_object_get(a, key))
			diff_member(d, path, key, a, b, def);
}

/* The names of environment variables, as an object: {"NAME": "set"}. */
static json_t *diff_names(const json_t *env)
{
	json_t *names = json_object(), *value;
	const char *key;
	size_t i;

	json_object_foreach ((json_t *)env, key, value)
		json_put(names, key, json_string("set"));
	json_array_foreach (env, i, value) {
		const char *text = json_is_string(value) ? json_string_value(value) : "";
		char name[256];

		snprintf(name, sizeof(name), "%.*s", (int)strcspn(text, "="), text);
		json_put(names, name, json_string("set"));
	}
	return names;
}

/* The role of that name; the only role of each side is the same one, whatever it is called. */
static const json_t *diff_role(const json_t *roles, const json_t *others, const char *name)
{
	json_t *role;
	size_t i;

	if (json_array_size(roles) == 1 && json_array_size(others) == 1)
		return json_array_get(roles, 0);
	json_array_foreach (roles, i, role)
		if (!strcmp(json_get_string(role, "name", ""), name))
			return role;
	return NULL;
}

static void diff_roles(struct spec_diff *d, const json_t *a, const json_t *b, const json_t *def)
{
	const json_t *const sides[] = { a, b };

	for (int side = 0; side < 2; side++) {
		json_t *role;
		size_t i;

		json_array_foreach (sides[side], i, role) {
			const char *name = json_get_string(role, "name", "");
			const json_t *other = diff_role(sides[!side], sides[side], name);
			char path[SPEC_PATH_MAX];

			snprintf(path, sizeof(path), "roles[%.200s]", name);
			if (side == 0)
				diff_values(d, path, role, other, json_array_get(def, 0));
			else if (!other)
				diff_row(d, path, NULL, role, NULL);
		}
	}
}

static bool diff_is_env(const char *path)
{
	const char *dot = strrchr(path, '.');

	return !strcmp(dot ? dot + 1 : path, "env");
}

static void diff_values(
	struct spec_diff *d, const char *path, const json_t *a, const json_t *b, const json_t *def)
{
	if (a && b && json_equal(a, b))
		return;
	if (diff_is_env(path) && (json_is_array(a) || json_is_array(b))) {
		_cleanup_json_ json_t *x = diff_names(a), *y = diff_names(b);

		diff_objects(d, path, x, y, NULL);
	} else if (!strcmp(path, "roles") && json_is_array(a) && json_is_array(b)) {
		diff_roles(d, a, b, def);
	} else if (json_is_object(a) && json_is_object(b)) {
		diff_objects(d, path, a, b, def);
	} else if (diff_is_env(path) && (json_is_object(a) || json_is_object(b))) {
		diff_objects(d, path, a, b, NULL);
	} else {
		diff_row(d, path, a, b, def);
	}
}

json_t *spec_diff(const json_t *old, const json_t *new)
{
	_cleanup_json_ json_t *def = diff_defaults();
	struct spec_diff d = { .found = json_array() };

	if (!d.found || !def)
		d.failed = true;
	else
		diff_objects(&d, "", old, new, def);
	if (!d.failed)
		return d.found;
	json_decref(d.found);
	return NULL;
}
