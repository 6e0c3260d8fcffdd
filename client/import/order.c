/* SPDX-License-Identifier: Apache-2.0 */
#include "client/import/order.h"

#include "common/spec/spec.h"
#include "common/text/json.h"

#include <string.h>

const char *order_program(const struct section *s)
{
	static const char *const kinds[] = { "program:", "eventlistener:", "fcgi-program:" };

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		const char *name = s->name + strlen(kinds[i]);

		if (strncmp(s->name, kinds[i], strlen(kinds[i])) != 0)
			continue;
		name += strspn(name, " \t");
		return *name ? name : NULL;
	}
	return NULL;
}

struct section *order_group(const struct sections *all, const char *name)
{
	for (size_t i = 0; i < all->n; i++) {
		bool group = !strncmp(all->items[i].name, "group:", 6);
		struct section_key *k = group ? section_find(&all->items[i], "programs") : NULL;
		_cleanup_free_ char *text = k ? strdup(k->value) : NULL;
		char *save = NULL;

		if (!text)
			continue;
		for (char *w = strtok_r(text, ", \t\n", &save); w;
			w = strtok_r(NULL, ", \t\n", &save))
			if (!strcmp(w, name))
				return &all->items[i];
	}
	return NULL;
}

bool order_goes_alone(const struct section *s)
{
	return !strncmp(s->name, "program:", 8);
}

char *order_job_name(const char *program)
{
	char *name = strndup(program, 64);
	struct error err = { 0 };

	if (!name || spec_check_name(name, &err) == 0)
		return name;
	for (char *c = name; *c; c++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-",
			    *c) ||
			(c == name && *c == '-'))
			*c = '_';
	return name;
}

static void order_add(json_t *names, const struct section *s)
{
	_cleanup_free_ char *name = order_job_name(order_program(s));

	if (name)
		json_add(names, json_string(name));
}

json_t *order_before(const struct sections *all, const struct section *s)
{
	int64_t before = INT64_MIN;
	json_t *names = json_array();

	for (size_t i = 0; i < all->n; i++) {
		const struct section *other = &all->items[i];

		if (other->starts && other->rank < s->rank && other->rank > before)
			before = other->rank;
	}
	for (size_t i = 0; i < all->n; i++)
		if (all->items[i].starts && all->items[i].rank == before)
			order_add(names, &all->items[i]);
	return names;
}
