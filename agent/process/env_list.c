/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/env_list.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

void env_fini(struct env *e)
{
	for (size_t i = 0; i < e->n; i++)
		free(e->vars[i]);
	free(e->vars);
	*e = (struct env){ 0 };
}

static size_t env_name_len(const char *entry)
{
	return (size_t)(strchrnul(entry, '=') - entry);
}

static char **env_find(const struct env *e, const char *name, size_t len)
{
	for (size_t i = 0; i < e->n; i++)
		if (e->vars[i][0] == name[0] && !strncmp(e->vars[i], name, len) &&
			e->vars[i][len] == '=')
			return &e->vars[i];
	return NULL;
}

/* Takes entry, also on failure. */
static int env_take(struct env *e, char *entry)
{
	char **at;

	if (!entry)
		return -ENOMEM;
	at = env_find(e, entry, env_name_len(entry));
	if (at) {
		free(*at);
		*at = entry;
		return 0;
	}
	if (e->n + 2 > e->cap) {
		size_t cap = e->cap ? e->cap * 2 : 64;
		char **vars = reallocarray(e->vars, cap, sizeof(*vars));

		if (!vars) {
			free(entry);
			return -ENOMEM;
		}
		e->vars = vars;
		e->cap = cap;
	}
	e->vars[e->n++] = entry;
	e->vars[e->n] = NULL;
	return 0;
}

int env_put(struct env *e, const char *entry)
{
	return env_take(e, strdup(entry));
}

int env_add(struct env *e, char *const *list)
{
	int r = 0;

	for (size_t i = 0; list && list[i] && !r; i++)
		r = env_put(e, list[i]);
	return r;
}

int env_setf(struct env *e, const char *name, const char *fmt, ...)
{
	size_t len = strlen(name);
	char *value, *entry;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&value, fmt, ap);
	va_end(ap);
	if (n < 0)
		return -ENOMEM;
	entry = realloc(value, len + 1 + (size_t)n + 1);
	if (!entry) {
		free(value);
		return -ENOMEM;
	}
	memmove(entry + len + 1, entry, (size_t)n + 1);
	memcpy(entry, name, len);
	entry[len] = '=';
	return env_take(e, entry);
}

void env_unset(struct env *e, const char *name)
{
	char **at = env_find(e, name, strlen(name));

	if (!at)
		return;
	free(*at);
	memmove(at, at + 1, (size_t)(e->vars + e->n - at) * sizeof(*at)); /* with the NULL */
	e->n--;
}

const char *env_get(const struct env *e, const char *name)
{
	size_t len = strlen(name);
	char **at = env_find(e, name, len);

	return at ? *at + len + 1 : NULL;
}
