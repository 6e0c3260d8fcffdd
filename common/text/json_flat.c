/* SPDX-License-Identifier: Apache-2.0 */
#include "common/text/json_flat.h"

#include <string.h>

/* So many digits fit into an int64_t whatever they are. */
enum { DIGITS_MAX = 18 };

static bool is_plain(unsigned char c)
{
	return c >= ' ' && c < 0x7f && c != '"' && c != '\\';
}

/* Reads one string, from its quote on. */
static char *scan_string(char *text, char **ret, size_t *ret_len)
{
	char *begin = text + 1;

	if (*text != '"')
		return NULL;
	for (text = begin; is_plain((unsigned char)*text);)
		text++;
	if (*text != '"')
		return NULL;
	*ret = begin;
	*ret_len = (size_t)(text - begin);
	return text + 1;
}

static char *scan_int(char *text, struct flat_field *f)
{
	bool negative = *text == '-';
	char *begin = text += negative;
	uint64_t n = 0; /* has room for a digit more than are taken */

	while (*text >= '0' && *text <= '9' && text - begin < DIGITS_MAX)
		n = n * 10 + (uint64_t)(*text++ - '0');
	/* No digit, a zero in front ("-0", too), another digit, a fraction. */
	if (text == begin || (*begin == '0' && text - begin > 1) || (negative && !n) ||
		(*text != ',' && *text != '}'))
		return NULL;
	f->kind = FLAT_INT;
	f->number = negative ? -(int64_t)n : (int64_t)n;
	return text;
}

static char *scan_word(char *text, const char *word, enum flat_kind kind, struct flat_field *f)
{
	size_t n = strlen(word);

	if (strncmp(text, word, n) != 0)
		return NULL;
	f->kind = kind;
	f->number = *word == 't';
	return text + n;
}

static char *scan_value(char *text, struct flat_field *f)
{
	switch (*text) {
	case '"':
		f->kind = FLAT_STRING;
		return scan_string(text, &f->string, &f->len);
	case 't':
		return scan_word(text, "true", FLAT_BOOL, f);
	case 'f':
		return scan_word(text, "false", FLAT_BOOL, f);
	case 'n':
		return scan_word(text, "null", FLAT_NULL, f);
	default:
		return scan_int(text, f);
	}
}

static bool is_named(const struct flat_field *f, const char *name, size_t len)
{
	return f->name_len == len && *f->name == *name && memcmp(f->name, name, len) == 0;
}

/* One member, from its name on. */
static char *scan_field(char *text, struct flat *to)
{
	struct flat_field *f = &to->fields[to->n];
	char *name;

	if (to->n == FLAT_FIELDS)
		return NULL;
	text = scan_string(text, &name, &f->name_len);
	if (!text || *text != ':')
		return NULL;
	f->name = name;
	for (size_t i = 0; i < to->n; i++)
		if (is_named(&to->fields[i], name, f->name_len))
			return NULL;
	to->n++;
	return scan_value(text + 1, f);
}

char *flat_scan(char *text, struct flat *ret)
{
	ret->n = 0;
	if (*text++ != '{')
		return NULL;
	if (*text == '}')
		return text + 1;
	while ((text = scan_field(text, ret))) {
		if (*text == '}')
			return text + 1;
		if (*text++ != ',')
			return NULL;
	}
	return NULL;
}

void flat_seal(struct flat *f)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->fields[i].kind == FLAT_STRING)
			f->fields[i].string[f->fields[i].len] = '\0';
}

static void field_of(const json_t *value, struct flat_field *f)
{
	switch (json_typeof(value)) {
	case JSON_NULL:
		f->kind = FLAT_NULL;
		break;
	case JSON_TRUE:
	case JSON_FALSE:
		f->kind = FLAT_BOOL;
		f->number = json_is_true(value);
		break;
	case JSON_INTEGER:
		f->kind = FLAT_INT;
		f->number = json_integer_value(value);
		break;
	case JSON_STRING:
		f->kind = FLAT_STRING;
		f->string = (char *)json_string_value(value);
		f->len = json_string_length(value);
		break;
	default:
		f->kind = FLAT_TREE;
		f->tree = value;
	}
}

void flat_of(const json_t *object, struct flat *ret)
{
	const char *name;
	json_t *value;

	ret->n = 0;
	json_object_foreach ((json_t *)object, name, value) {
		struct flat_field *f = &ret->fields[ret->n];

		if (ret->n == FLAT_FIELDS)
			break;
		f->name = name;
		f->name_len = strlen(name);
		field_of(value, f);
		ret->n++;
	}
}

const struct flat_field *flat_get(const struct flat *f, const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < f->n; i++)
		if (is_named(&f->fields[i], name, len))
			return f->fields[i].kind == FLAT_NULL ? NULL : &f->fields[i];
	return NULL;
}

const char *flat_text(const struct flat *f, const char *name, const char *missing)
{
	const struct flat_field *field = flat_get(f, name);

	return field && field->kind == FLAT_STRING ? field->string : missing;
}

int64_t flat_int(const struct flat *f, const char *name, int64_t missing)
{
	const struct flat_field *field = flat_get(f, name);

	return field && field->kind == FLAT_INT ? field->number : missing;
}

bool flat_bool(const struct flat *f, const char *name)
{
	const struct flat_field *field = flat_get(f, name);

	return field && field->kind == FLAT_BOOL && field->number;
}

const json_t *flat_array(const struct flat *f, const char *name)
{
	const struct flat_field *field = flat_get(f, name);

	return field && field->kind == FLAT_TREE && json_is_array(field->tree) ? field->tree : NULL;
}
