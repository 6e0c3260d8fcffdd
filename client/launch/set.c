/* SPDX-License-Identifier: Apache-2.0 */
#include "client/launch/table.h"
#include "common/base/quote.h"
#include "common/text/json.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <string.h>

const char *launch_origin(const struct launch_state *s, enum launch_id id, char buf[LAUNCH_PET_MAX])
{
	if (s->from_env[id])
		return launch_pet_name(&launch_options[id], buf);
	snprintf(buf, LAUNCH_PET_MAX, "--%s", launch_options[id].name);
	return buf;
}

int launch_refuse(const struct launch_state *s, enum launch_id id, const char *fmt, ...)
{
	char origin[LAUNCH_PET_MAX], text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return error_field(s->err, -EINVAL, launch_origin(s, id, origin), "%s", text);
}

int launch_expected(
	const struct launch_state *s, enum launch_id id, const char *expected, const char *value)
{
	char q[QUOTE_MAX];

	return launch_refuse(s, id, "expected %s, got %s", expected, quote_text(value, q));
}

int launch_no_memory(const struct launch_state *s)
{
	return error_set(s->err, -ENOMEM, "out of memory");
}

int launch_warn(struct launch_state *s, const char *fmt, ...)
{
	char **warnings = reallocarray(s->warnings, s->n_warnings + 2, sizeof(*warnings));
	va_list ap;
	int n;

	if (!warnings)
		return launch_no_memory(s);
	s->warnings = warnings;
	va_start(ap, fmt);
	n = vasprintf(&warnings[s->n_warnings], fmt, ap);
	va_end(ap);
	if (n < 0) {
		warnings[s->n_warnings] = NULL;
		return launch_no_memory(s);
	}
	warnings[++s->n_warnings] = NULL;
	return 0;
}

json_t *launch_text_json(const struct launch_state *s, enum launch_id id, const char *text)
{
	json_t *value = json_string(text);

	if (!value)
		launch_refuse(s, id, "expected text in UTF-8");
	return value;
}

int launch_set(struct launch_state *s, const char *section, const char *key, json_t *value)
{
	json_t *object = s->doc;

	if (!value)
		return -EINVAL;
	if (section) {
		object = json_object_get(s->doc, section);
		if (!object) {
			object = json_object();
			if (json_put(s->doc, section, object) < 0) {
				json_decref(value);
				return launch_no_memory(s);
			}
		}
	}
	return json_put(object, key, value) < 0 ? launch_no_memory(s) : 0;
}

json_t *launch_role_object(const struct launch_state *s, enum launch_id id)
{
	const json_t *roles = json_object_get(s->doc, "roles");

	if (json_array_size(roles) == 1)
		return json_array_get(roles, 0);
	launch_refuse(s, id, "the job file has %zu roles: change it there", json_array_size(roles));
	return NULL;
}

char *launch_absolute(const char *dir, const char *path)
{
	_cleanup_free_ char *cwd = NULL;
	char *absolute;

	if (*path == '/')
		return strdup(path);
	if (!dir) {
		dir = cwd = getcwd(NULL, 0);
		if (!dir)
			return NULL;
	}
	while (!strncmp(path, "./", 2))
		path += 2;
	if (!strcmp(path, ".") || !*path)
		return strdup(dir);
	if (asprintf(&absolute, "%s/%s", strcmp(dir, "/") ? dir : "", path) < 0)
		return NULL;
	return absolute;
}
