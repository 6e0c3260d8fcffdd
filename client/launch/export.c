/* SPDX-License-Identifier: Apache-2.0 */
#include "client/launch/export.h"

#include "common/base/quote.h"

#include <errno.h>
#include <string.h>

/* Variables that a program needs to find itself and its libraries. */
static const char *const usual[] = { "PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH",
	"PYTHONPATH", NULL };

bool export_is_name(const char *text, size_t len)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";

	if (len == 0 || !strchr(letters, *text))
		return false;
	for (size_t i = 1; i < len; i++)
		if (!strchr(letters, text[i]) && (text[i] < '0' || text[i] > '9'))
			return false;
	return true;
}

static bool name_is(const char *entry, const char *name, size_t len)
{
	return !strncmp(entry, name, len) && entry[len] == '=';
}

static const char *find_variable(char *const *environ, const char *name, size_t len)
{
	for (; *environ; environ++)
		if (name_is(*environ, name, len))
			return *environ + len + 1;
	return NULL;
}

/* Sets a variable in the object vars; refuses one that is not UTF-8, which JSON cannot hold. */
static int set_variable(
	json_t *vars, const char *name, size_t len, const char *value, struct error *err)
{
	_cleanup_free_ char *key = strndup(name, len);
	json_t *v;

	if (!key)
		return error_set(err, -ENOMEM, "out of memory");
	v = json_string(value);
	if (!v)
		return error_set(err, -EINVAL, "--export: %s is not valid UTF-8", key);
	return json_object_set_new(vars, key, v) < 0 ? error_set(err, -ENOMEM, "out of memory") : 0;
}

static int add_all(json_t *vars, char *const *environ, struct error *err)
{
	for (; *environ; environ++) {
		size_t len = strcspn(*environ, "=");

		if (len == 0 || (*environ)[len] != '=')
			continue;
		/* Skips a variable that cannot be set: an odd one must not keep the job from
		 * starting. */
		if (set_variable(vars, *environ, len, *environ + len + 1, NULL) == -ENOMEM)
			return error_set(err, -ENOMEM, "out of memory");
	}
	return 0;
}

static int add_listed(json_t *vars, const char *list, char *const *environ, struct error *err)
{
	char quoted[QUOTE_MAX];
	int r = 0;

	while (r == 0 && *list) {
		size_t len = strcspn(list, ","), name = strcspn(list, "=,");
		_cleanup_free_ char *item = strndup(list, len);
		const char *value;

		if (!item)
			return error_set(err, -ENOMEM, "out of memory");
		if (!export_is_name(item, name))
			return error_set(err, -EINVAL,
				"--export: expected ALL, NONE, or NAME and NAME=VALUE with commas "
				"between, got %s",
				quote_text(list, quoted));
		value = name < len ? item + name + 1 : find_variable(environ, item, len);
		if (value)
			r = set_variable(vars, item, name, value, err);
		list += len;
		list += *list == ',';
	}
	return r;
}

static int choose_variables(const char *what, char *const *environ, json_t *vars, struct error *err)
{
	int r = 0;

	if (what && !strcmp(what, "NONE"))
		return 0;
	if (what && !strcmp(what, "ALL"))
		return add_all(vars, environ, err);
	if (what)
		return add_listed(vars, what, environ, err);
	for (const char *const *name = usual; r == 0 && *name; name++) {
		const char *value = find_variable(environ, *name, strlen(*name));

		if (value)
			r = set_variable(vars, *name, strlen(*name), value, err);
	}
	return r;
}

/* Adds vars to the role's env; the role's own values stay. */
static int add_to_role(json_t *role, const json_t *vars)
{
	json_t *own = json_object_get(role, "env");
	json_t *env = json_copy((json_t *)vars);

	if (!env)
		return -ENOMEM;
	/* The check of the specification reports an env of a wrong type. */
	if (own && !json_is_object(own)) {
		json_decref(env);
		return 0;
	}
	if (own && json_object_update(env, own) < 0) {
		json_decref(env);
		return -ENOMEM;
	}
	return json_object_set_new(role, "env", env) < 0 ? -ENOMEM : 0;
}

int export_env(json_t *spec, const char *what, char *const *environ, struct error *err)
{
	_cleanup_json_ json_t *vars = json_object();
	json_t *role;
	size_t i;
	int r;

	if (!vars)
		return error_set(err, -ENOMEM, "out of memory");
	r = choose_variables(what, environ, vars, err);
	if (r < 0 || json_object_size(vars) == 0)
		return r;
	json_array_foreach (json_object_get(spec, "roles"), i, role)
		if (json_is_object(role) && add_to_role(role, vars) < 0)
			return error_set(err, -ENOMEM, "out of memory");
	return 0;
}
