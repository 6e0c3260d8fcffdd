/* SPDX-License-Identifier: Apache-2.0 */
#include "common/text/json.h"

#include "common/base/file.h"
#include "common/base/printable.h"

#include <errno.h>
#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd"

int json_put(json_t *obj, const char *key, json_t *value)
{
	return json_object_set_new(obj, key, value) < 0 ? -ENOMEM : 0;
}

int json_put_string(json_t *obj, const char *key, const char *s)
{
	return s ? json_put(obj, key, json_text(s)) : 0;
}

int json_put_int(json_t *obj, const char *key, int64_t n)
{
	return json_put(obj, key, json_integer(n));
}

int json_put_note(json_t *obj, const char *note)
{
	const char *before = json_string_value(json_object_get(obj, "note"));

	return before ? json_put(obj, "note", json_sprintf("%s; %s", before, note))
		      : json_put_string(obj, "note", note);
}

int json_add(json_t *array, json_t *value)
{
	return json_array_append_new(array, value) < 0 ? -ENOMEM : 0;
}

static json_t *string_repaired(const char *s, size_t len)
{
	_cleanup_free_ char *text = len < SIZE_MAX / 3 ? malloc(len * 3) : NULL;
	size_t out = 0;

	if (!text)
		return NULL;
	for (size_t i = 0; i < len;) {
		unsigned c;
		int n = s[i] ? printable_utf8(s + i, len - i, &c) : 0;

		if (n > 0) {
			memcpy(text + out, s + i, n);
			out += n;
			i += n;
		} else {
			memcpy(text + out, REPLACEMENT, strlen(REPLACEMENT));
			out += strlen(REPLACEMENT);
			i++;
		}
	}
	return json_stringn(text, out);
}

json_t *json_string_lossy(const char *s, size_t len)
{
	json_t *j = memchr(s, '\0', len) ? NULL : json_stringn(s, len);

	return j ? j : string_repaired(s, len);
}

json_t *json_text(const char *s)
{
	return s ? json_string_lossy(s, strlen(s)) : NULL;
}

const char *json_get_string(const json_t *obj, const char *key, const char *def)
{
	const json_t *v = json_object_get(obj, key);

	return json_is_string(v) ? json_string_value(v) : def;
}

int64_t json_get_int(const json_t *obj, const char *key, int64_t def)
{
	const json_t *v = json_object_get(obj, key);

	return json_is_integer(v) ? json_integer_value(v) : def;
}

bool json_get_bool(const json_t *obj, const char *key, bool def)
{
	const json_t *v = json_object_get(obj, key);

	return json_is_boolean(v) ? json_is_true(v) : def;
}

json_t *json_get_object(const json_t *obj, const char *key)
{
	json_t *v = json_object_get(obj, key);

	return json_is_object(v) ? v : NULL;
}

json_t *json_get_array(const json_t *obj, const char *key)
{
	json_t *v = json_object_get(obj, key);

	return json_is_array(v) ? v : NULL;
}

const char *json_type_name(const json_t *value)
{
	static const char *const names[] = {
		[JSON_OBJECT] = "an object",
		[JSON_ARRAY] = "an array",
		[JSON_STRING] = "a string",
		[JSON_INTEGER] = "an integer",
		[JSON_REAL] = "a number",
		[JSON_TRUE] = "a boolean",
		[JSON_FALSE] = "a boolean",
		[JSON_NULL] = "null",
	};

	return value ? names[json_typeof(value)] : "nothing";
}

/*
 * jansson's own limit of nesting is fixed and too deep for the functions here that recurse over a
 * value; and it has no limit of the number of values.
 */
struct shape {
	int depth, line; /* where it is too deep; else depth is 0 */
	size_t column, units;
};

enum { UNITS_OBJECT = 8, UNITS_ARRAY = 4, UNITS_MEMBER = 3, UNITS_VALUE = 2 };

static void measure_shape(const char *text, size_t len, struct shape *s)
{
	bool quoted = false;
	size_t start = 0;

	*s = (struct shape){ .line = 1, .units = UNITS_VALUE };
	for (size_t i = 0; i < len; i++) {
		switch (text[i]) {
		case '\n':
			s->line++;
			start = i + 1;
			break;
		case '\\':
			if (quoted)
				i++;
			break;
		case '"':
			quoted = !quoted;
			break;
		case ':':
			s->units += quoted ? 0 : UNITS_MEMBER;
			break;
		case ',':
			s->units += quoted ? 0 : UNITS_VALUE;
			break;
		case '[':
		case '{':
			if (quoted)
				break;
			s->units += text[i] == '{' ? UNITS_OBJECT : UNITS_ARRAY;
			s->column = i - start + 1;
			if (++s->depth > JSON_DEPTH_MAX)
				return;
			break;
		case ']':
		case '}':
			s->depth -= !quoted;
			break;
		}
	}
	s->depth = 0;
}

size_t json_units(const char *text, size_t len)
{
	struct shape s;

	measure_shape(text, len, &s);
	return s.units;
}

static int check_shape(const char *text, size_t len, struct error *err)
{
	struct shape s;

	measure_shape(text, len, &s);
	if (s.depth > JSON_DEPTH_MAX)
		return error_set(err, -EINVAL, "line %d, column %zu: nested deeper than %d levels",
			s.line, s.column, JSON_DEPTH_MAX);
	if (s.units > JSON_UNITS_MAX)
		return error_set(err, -EINVAL, "line 1, column 1: too many values");
	return 0;
}

int json_parse(const char *text, size_t len, json_t **ret, struct error *err)
{
	json_error_t e;
	json_t *j;
	int r = check_shape(text, len, err);

	if (r < 0)
		return r;
	j = json_loadb(text, len, JSON_REJECT_DUPLICATES, &e);
	/* Without memory to begin with, jansson leaves the code as it was. */
	if (!j && (!e.text[0] || json_error_code(&e) == json_error_out_of_memory))
		return error_set(err, -ENOMEM, "out of memory");
	if (!j)
		return error_set(err, -EINVAL, "line %d, column %d: %s", e.line, e.column, e.text);
	*ret = j;
	return 0;
}

int json_parse_object(const char *text, size_t len, json_t **ret, struct error *err)
{
	_cleanup_json_ json_t *j = NULL;
	int r = json_parse(text, len, &j, err);

	if (r < 0)
		return r;
	if (!json_is_object(j))
		return error_set(err, -EINVAL, "expected an object, got %s", json_type_name(j));
	*ret = TAKE_PTR(j);
	return 0;
}

int json_read_file(const char *path, size_t max_bytes, json_t **ret, struct error *err)
{
	_cleanup_free_ char *text = NULL;
	size_t len;
	int r = file_read(path, max_bytes, &text, &len);

	if (r < 0)
		return error_set(err, r, "%s: %s", path, strerror(-r));
	r = json_parse_object(text, len, ret, err);
	if (r < 0)
		error_prefix(err, "%s", path);
	return r;
}

char *json_dump_text(const json_t *value, size_t *ret_len)
{
	char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);

	if (text && ret_len)
		*ret_len = strlen(text);
	return text;
}
