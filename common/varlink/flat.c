/* SPDX-License-Identifier: Apache-2.0 */
#include "common/varlink/flat.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int varlink_flat_init(struct varlink_flat *ret, const struct varlink_idl *idl,
	const struct varlink_flat_method *methods, const struct varlink_range *ranges)
{
	struct varlink_flat f = { .idl = idl, .ranges = ranges };
	size_t n = 0;

	f.interface_len = strlen(idl->name);
	while (methods && methods[n].name)
		n++;
	f.targets = calloc(n + 1, sizeof(*f.targets));
	if (!f.targets)
		return -ENOMEM;
	for (; f.n < n; f.n++) {
		struct varlink_flat_target *t = &f.targets[f.n];
		const char *name = methods[f.n].name;

		t->member = varlink_idl_member(idl, VARLINK_METHOD, name);
		t->name_len = strlen(name);
		t->fn = methods[f.n].fn;
		if (!t->member || t->member->type.n_fields > FLAT_FIELDS) {
			free(f.targets);
			return -EINVAL;
		}
	}
	*ret = f;
	return 0;
}

void varlink_flat_fini(struct varlink_flat *f)
{
	free(f->targets);
	*f = (struct varlink_flat){ 0 };
}

/* Returns text after the expected beginning, or NULL. text may be NULL. */
static char *skip_text(char *text, const char *expected, size_t len)
{
	return text && strncmp(text, expected, len) == 0 ? text + len : NULL;
}

const struct varlink_flat_target *varlink_flat_find(
	const struct varlink_flat *f, const char *name, size_t len)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->targets[i].name_len == len &&
			memcmp(f->targets[i].member->name, name, len) == 0)
			return &f->targets[i];
	return NULL;
}

static bool has_kind(const struct varlink_type *t, enum flat_kind kind)
{
	switch (t->kind) {
	case VARLINK_STRING:
		return kind == FLAT_STRING;
	case VARLINK_INT:
		return kind == FLAT_INT;
	case VARLINK_BOOL:
		return kind == FLAT_BOOL;
	default:
		return false;
	}
}

/* Compares the first character first, which mostly decides. */
static bool is_named(const struct flat_field *f, const char *name)
{
	return f->name_len && *f->name == *name && strncmp(f->name, name, f->name_len) == 0 &&
	       !name[f->name_len];
}

/* Whether all members are known and have their types, and none is missing. */
static bool type_fits(const struct varlink_type *type, const struct flat *p)
{
	size_t known = 0;

	for (size_t i = 0; i < type->n_fields; i++) {
		const struct varlink_field *field = &type->fields[i];
		size_t k = 0;

		while (k < p->n && !is_named(&p->fields[k], field->name))
			k++;
		known += k < p->n;
		if (field->type.nullable && (k == p->n || p->fields[k].kind == FLAT_NULL))
			continue;
		if (k == p->n || !has_kind(&field->type, p->fields[k].kind))
			return false;
	}
	return known == p->n;
}

static bool in_ranges(const struct varlink_range *ranges, const struct flat *p)
{
	for (size_t i = 0; i < p->n; i++) {
		const struct flat_field *field = &p->fields[i];

		if (field->kind != FLAT_INT)
			continue;
		for (const struct varlink_range *r = ranges; r && r->parameter; r++)
			if (is_named(field, r->parameter) &&
				(field->number < r->min || field->number > r->max))
				return false;
	}
	return true;
}

const struct varlink_flat_target *varlink_flat_match(
	const struct varlink_flat *f, char *text, size_t len, struct flat *ret)
{
	static const char begin[] = "{\"method\":\"", middle[] = "\",\"parameters\":";
	const struct varlink_flat_target *m;
	const char *name;
	char *at = text;

	if (!f->n)
		return NULL;
	at = skip_text(at, begin, sizeof(begin) - 1);
	at = skip_text(at, f->idl->name, f->interface_len);
	at = skip_text(at, ".", 1);
	if (!at)
		return NULL;
	name = at;
	at = strchr(at, '"');
	m = at ? varlink_flat_find(f, name, (size_t)(at - name)) : NULL;
	at = m ? skip_text(at, middle, sizeof(middle) - 1) : NULL;
	at = at ? flat_scan(at, ret) : NULL;
	/* A NUL inside the message is not its end. */
	if (!at || *at != '}' || at + 1 != text + len)
		return NULL;
	if (!type_fits(&m->member->type, ret) || !in_ranges(f->ranges, ret))
		return NULL;
	flat_seal(ret);
	return m;
}
