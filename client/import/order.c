/* SPDX-License-Identifier: Apache-2.0 */
#include "client/import/order.h"

#include "client/import/text.h"
#include "common/spec/spec.h"
#include "common/text/json.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { ORDER_PRIORITY = 999 }; /* supervisord's default */

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
		struct section_key *k = section_find(&all->items[i], "programs");
		_cleanup_free_ char *text = k ? strdup(k->value) : NULL;
		char *save = NULL;

		if (!text || strncmp(all->items[i].name, "group:", 6) != 0)
			continue;
		for (char *w = strtok_r(text, ", \t\n", &save); w;
			w = strtok_r(NULL, ", \t\n", &save))
			if (!strcmp(w, name))
				return &all->items[i];
	}
	return NULL;
}

/* A value with variables of the environment; owned. */
static char *order_plain(const struct section_key *k)
{
	_cleanup_free_ char *problem = NULL;
	char *text = NULL;

	return k && text_expand(k->value, NULL, 0, NULL, &text, &problem) == 0 ? text : NULL;
}

static int64_t order_priority(struct section *s, int64_t otherwise)
{
	_cleanup_free_ char *text = order_plain(section_find(s, "priority"));
	long n = text ? strtol(text, NULL, 10) : otherwise;

	return n < -999999 ? -999999 : n > 999999 ? 999999 : n;
}

/* Programs start by the priority of their group, then by their own. */
static int64_t order_rank(const struct sections *all, struct section *s)
{
	struct section *group = order_group(all, order_program(s));
	int64_t own = order_priority(s, ORDER_PRIORITY);

	return (group ? order_priority(group, ORDER_PRIORITY) : own) * 1000000 + own;
}

bool order_goes_alone(const struct section *s)
{
	return !strncmp(s->name, "program:", 8);
}

static bool order_starts(struct section *s)
{
	_cleanup_free_ char *text = order_plain(section_find(s, "autostart"));

	return order_goes_alone(s) && (!text || text_bool(text) != 0);
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

/* The section of another program that starts by itself: its place; INT64_MIN for all others. */
static int64_t order_of(const struct sections *all, struct section *s)
{
	if (!order_program(s) || sections_find(all, s->name) != s || !order_starts(s))
		return INT64_MIN;
	return order_rank(all, s);
}

json_t *order_before(const struct sections *all, struct section *s)
{
	int64_t own = order_rank(all, s), before = INT64_MIN;
	json_t *names = json_array();

	for (size_t i = 0; i < all->n; i++) {
		int64_t rank = order_of(all, &all->items[i]);

		if (rank < own && rank > before)
			before = rank;
	}
	for (size_t i = 0; i < all->n && before != INT64_MIN; i++)
		if (order_of(all, &all->items[i]) == before)
			order_add(names, &all->items[i]);
	return names;
}
