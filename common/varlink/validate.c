/* SPDX-License-Identifier: Apache-2.0 */
#include "common/varlink/validate.h"

#include "common/text/json.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* The path of the present value; written out only for an error. */
struct path {
	const struct path *up;
	const char *key; /* NULL: an array's element */
	size_t index;
	bool newer; /* unknown members may come from a newer program */
};

static void path_text(const struct path *p, char *text, size_t size)
{
	size_t n;

	if (p->up)
		path_text(p->up, text, size);
	else
		*text = '\0';
	n = strlen(text);
	if (p->key)
		snprintf(text + n, size - n, "%s%s", p->up ? "." : "", p->key);
	else
		snprintf(text + n, size - n, "[%zu]", p->index);
}

static void list_names(const struct varlink_type *t, char *text, size_t size)
{
	size_t n = 0;

	for (size_t i = 0; i < t->n_fields && n < size; i++)
		n += snprintf(text + n, size - n, "%s%s", i ? ", " : "", t->fields[i].name);
}

static const char *describe_type(const struct varlink_type *t, char *text, size_t size)
{
	static const char *const names[] = {
		[VARLINK_BOOL] = "a boolean",
		[VARLINK_INT] = "an integer",
		[VARLINK_FLOAT] = "a number",
		[VARLINK_STRING] = "a string",
		[VARLINK_OBJECT] = "an object",
		[VARLINK_STRUCT] = "an object",
		[VARLINK_ARRAY] = "an array",
		[VARLINK_MAP] = "an object",
	};

	while (t->kind == VARLINK_NAMED)
		t = t->target;
	if (t->kind != VARLINK_ENUM)
		return names[t->kind];
	strcpy(text, "one of ");
	list_names(t, text + strlen(text), size - strlen(text));
	return text;
}

static int wrong_type(
	const struct path *p, const struct varlink_type *t, const json_t *v, struct error *err)
{
	char field[sizeof(err->field)], what[256];

	path_text(p, field, sizeof(field));
	if (!v)
		return error_field(err, -EINVAL, field, "missing, expected %s",
			describe_type(t, what, sizeof(what)));
	if (json_is_string(v))
		return error_field(err, -EINVAL, field, "expected %s, got \"%.60s\"",
			describe_type(t, what, sizeof(what)), json_string_value(v));
	return error_field(err, -EINVAL, field, "expected %s, got %s",
		describe_type(t, what, sizeof(what)), json_type_name(v));
}

static int check_value(
	const struct path *p, const struct varlink_type *t, const json_t *v, struct error *err);

static int unknown_member(
	const struct path *p, const struct varlink_type *t, const json_t *v, struct error *err)
{
	char field[sizeof(err->field)], known[256] = "none";
	const char *key;
	json_t *member;

	json_object_foreach ((json_t *)v, key, member) {
		struct path below = { .up = p, .key = key };
		size_t i = 0;

		while (i < t->n_fields && strcmp(t->fields[i].name, key))
			i++;
		if (i < t->n_fields)
			continue;
		path_text(&below, field, sizeof(field));
		list_names(t, known, sizeof(known));
		return error_field(err, -EINVAL, field, "unknown, expected one of: %s", known);
	}
	return 0;
}

static int check_struct(
	const struct path *p, const struct varlink_type *t, const json_t *v, struct error *err)
{
	size_t known = 0;

	for (size_t i = 0; i < t->n_fields; i++) {
		const struct varlink_field *f = &t->fields[i];
		const json_t *member = json_object_get(v, f->name);
		struct path below = { .up = p, .key = f->name, .newer = p->newer };
		int r;

		known += member != NULL;
		if (f->type.nullable && (!member || json_is_null(member)))
			continue;
		r = check_value(&below, &f->type, member, err);
		if (r < 0)
			return r;
	}
	return p->newer || known == json_object_size(v) ? 0 : unknown_member(p, t, v, err);
}

static int check_elements(
	const struct path *p, const struct varlink_type *t, const json_t *v, struct error *err)
{
	json_t *element;
	const char *key;
	size_t i;
	int r = 0;

	if (t->kind == VARLINK_ARRAY) {
		json_array_foreach (v, i, element) {
			struct path below = { .up = p, .index = i, .newer = p->newer };

			r = check_value(&below, t->element, element, err);
			if (r < 0)
				return r;
		}
		return 0;
	}
	json_object_foreach ((json_t *)v, key, element) {
		struct path below = { .up = p, .key = key, .newer = p->newer };

		r = check_value(&below, t->element, element, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static bool in_enum(const struct varlink_type *t, const json_t *v)
{
	const char *s = json_string_value(v);

	for (size_t i = 0; s && i < t->n_fields; i++)
		if (!strcmp(t->fields[i].name, s))
			return true;
	return false;
}

static int check_value(
	const struct path *p, const struct varlink_type *t, const json_t *v, struct error *err)
{
	bool ok = false;

	if (t->nullable && json_is_null(v))
		return 0;
	while (t->kind == VARLINK_NAMED)
		t = t->target;
	switch (t->kind) {
	case VARLINK_BOOL:
		ok = json_is_boolean(v);
		break;
	case VARLINK_INT:
		ok = json_is_integer(v);
		break;
	case VARLINK_FLOAT:
		ok = json_is_number(v);
		break;
	case VARLINK_STRING:
		ok = json_is_string(v);
		break;
	case VARLINK_ENUM:
		ok = p->newer ? json_is_string(v) : in_enum(t, v);
		break;
	case VARLINK_OBJECT:
		ok = json_is_object(v);
		break;
	case VARLINK_STRUCT:
		return json_is_object(v) ? check_struct(p, t, v, err) : wrong_type(p, t, v, err);
	case VARLINK_ARRAY:
		return json_is_array(v) ? check_elements(p, t, v, err) : wrong_type(p, t, v, err);
	case VARLINK_MAP:
		return json_is_object(v) ? check_elements(p, t, v, err) : wrong_type(p, t, v, err);
	case VARLINK_NAMED:
		break;
	}
	return ok ? 0 : wrong_type(p, t, v, err);
}

int varlink_validate(
	const struct varlink_type *type, const json_t *value, const char *root, struct error *err)
{
	struct path p = { .key = root };

	return check_value(&p, type, value, err);
}

int varlink_validate_answer(
	const struct varlink_type *type, const json_t *value, const char *root, struct error *err)
{
	struct path p = { .key = root, .newer = true };

	return check_value(&p, type, value, err);
}

static int check_range(
	const struct varlink_range *r, const struct path *p, const json_t *v, struct error *err)
{
	char field[sizeof(err->field)];
	int64_t n = json_integer_value(v);

	while (r->parameter && (!p->key || strcmp(r->parameter, p->key) != 0))
		r++;
	if (!r->parameter || (n >= r->min && n <= r->max))
		return 0;
	path_text(p, field, sizeof(field));
	return error_field(err, -EINVAL, field, "expected %" PRId64 " to %" PRId64 ", got %" PRId64,
		r->min, r->max, n);
}

static int check_ranges(const struct varlink_range *ranges, const struct path *p, const json_t *v,
	int depth, struct error *err)
{
	json_t *element;
	const char *key;
	size_t i;
	int r = 0;

	if (json_is_integer(v))
		return check_range(ranges, p, v, err);
	if (!depth)
		return 0;
	json_object_foreach ((json_t *)v, key, element) {
		struct path below = { .up = p, .key = key };

		r = check_ranges(ranges, &below, element, depth - 1, err);
		if (r < 0)
			return r;
	}
	json_array_foreach (v, i, element) {
		struct path below = { .up = p, .index = i };

		r = check_ranges(ranges, &below, element, depth - 1, err);
		if (r < 0)
			return r;
	}
	return 0;
}

int varlink_validate_ranges(const struct varlink_range *ranges, const json_t *parameters,
	const char *root, bool deep, struct error *err)
{
	struct path p = { .key = root };

	return ranges ? check_ranges(ranges, &p, parameters, deep ? JSON_DEPTH_MAX : 1, err) : 0;
}
