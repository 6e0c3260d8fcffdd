/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/quote.h"
#include "common/spec/table.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A document's key can be any text: errors show it cut and printable. */
enum { NAME_SHOWN_MAX = 48 };

size_t spec_enter(struct spec_ctx *ctx, const char *name)
{
	size_t len = ctx->len, n;

	n = snprintf(ctx->path + len, sizeof(ctx->path) - len, "%s%.*s", len ? "." : "",
		NAME_SHOWN_MAX, name);
	if (n >= sizeof(ctx->path) - len)
		n = sizeof(ctx->path) - len - 1;
	for (size_t i = len; i < len + n; i++)
		if ((unsigned char)ctx->path[i] < 0x20 || ctx->path[i] == 0x7f)
			ctx->path[i] = '?';
	ctx->len += n;
	return len;
}

size_t spec_enter_index(struct spec_ctx *ctx, size_t i)
{
	size_t len = ctx->len, n;

	n = snprintf(ctx->path + len, sizeof(ctx->path) - len, "[%zu]", i);
	if (n >= sizeof(ctx->path) - len)
		n = sizeof(ctx->path) - len - 1;
	ctx->len += n;
	return len;
}

void spec_leave(struct spec_ctx *ctx, size_t len)
{
	ctx->len = len;
	ctx->path[len] = '\0';
}

int spec_refuse(struct spec_ctx *ctx, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return error_field(ctx->err, -EINVAL, ctx->path, "%s", text);
}

int spec_no_memory(struct spec_ctx *ctx)
{
	return error_field(ctx->err, -ENOMEM, ctx->path, "out of memory");
}

int spec_expected(struct spec_ctx *ctx, const char *expected, const json_t *value)
{
	char got[QUOTE_MAX];

	switch (json_typeof(value)) {
	case JSON_STRING:
		quote_text(json_string_value(value), got);
		break;
	case JSON_INTEGER:
		snprintf(got, sizeof(got), "%" JSON_INTEGER_FORMAT, json_integer_value(value));
		break;
	case JSON_REAL:
		snprintf(got, sizeof(got), "%g", json_real_value(value));
		break;
	case JSON_ARRAY:
		snprintf(got, sizeof(got), "%s", json_array_size(value) ? "an array" : "[]");
		break;
	case JSON_OBJECT:
		snprintf(got, sizeof(got), "%s", json_object_size(value) ? "an object" : "{}");
		break;
	case JSON_TRUE:
	case JSON_FALSE:
		snprintf(got, sizeof(got), "%s", json_is_true(value) ? "true" : "false");
		break;
	case JSON_NULL:
		snprintf(got, sizeof(got), "null");
		break;
	}
	return spec_refuse(ctx, "expected %s, got %s", expected, got);
}

const char *spec_text(struct spec_ctx *ctx, const char *expected, const json_t *value)
{
	size_t len;

	if (!json_is_string(value)) {
		spec_expected(ctx, expected, value);
		return NULL;
	}
	len = json_string_length(value);
	if (memchr(json_string_value(value), '\0', len)) {
		spec_refuse(ctx, "expected %s, got one that contains a NUL byte", expected);
		return NULL;
	}
	if (len >= SPEC_STRING_MAX) {
		spec_refuse(ctx, "expected a string of less than %d bytes, got %zu",
			SPEC_STRING_MAX, len);
		return NULL;
	}
	ctx->bytes += len + 1;
	if (ctx->bytes > SPEC_BYTES_MAX) {
		ctx->all = NULL; /* the error would repeat for all that follow */
		spec_refuse(ctx, "the strings of a specification are more than %d bytes together",
			SPEC_BYTES_MAX);
		return NULL;
	}
	return json_string_value(value);
}

const char *spec_text_or_number(
	struct spec_ctx *ctx, const char *expected, const json_t *value, char buf[32])
{
	if (!json_is_integer(value))
		return spec_text(ctx, expected, value);
	snprintf(buf, 32, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
	return buf;
}

int spec_format_text(const struct spec_key *key, const void *field, json_t **ret)
{
	const char *text = *(char *const *)field;

	return text ? spec_give(json_string(text), ret) : 0;
}

int spec_set_string(struct spec_ctx *ctx, const char *text, char **field)
{
	char *copy = strdup(text);

	if (!copy)
		return spec_no_memory(ctx);
	free(*field);
	*field = copy;
	return 0;
}

static const struct spec_key *find_key(const struct spec_key *keys, const char *name)
{
	for (; keys->name; keys++)
		if (!strcmp(keys->name, name))
			return keys;
	return NULL;
}

/* Refuses keys that are not in keys. A key that a misspelt one stands for is not reported as
 * missing: ret_meant has these keys as bits. */
static int refuse_unknown(
	struct spec_ctx *ctx, const struct spec_key *keys, const json_t *value, uint64_t *ret_meant)
{
	const char *name;
	json_t *member;

	json_object_foreach ((json_t *)value, name, member) {
		char hint[SPEC_HINT_MAX];
		const char *meant;
		size_t len;
		int r;

		if (find_key(keys, name))
			continue;
		len = spec_enter(ctx, name);
		r = spec_refuse(ctx, "%s", spec_hint(keys, name, &meant, hint));
		if (!spec_go_on(ctx, r))
			return r;
		spec_leave(ctx, len);
		if (meant)
			*ret_meant |= UINT64_C(1) << (find_key(keys, meant) - keys);
	}
	return 0;
}

int spec_walk_object(
	struct spec_ctx *ctx, const struct spec_key *keys, const json_t *value, void *base)
{
	uint64_t meant = 0;
	json_t *member;
	int r;

	if (!json_is_object(value))
		return spec_expected(ctx, "an object", value);
	/* A misspelt key first, since it may be why another one is missing. */
	r = refuse_unknown(ctx, keys, value, &meant);
	for (int i = 0; r == 0 && keys[i].name; i++) {
		size_t len = spec_enter(ctx, keys[i].name);

		member = json_object_get(value, keys[i].name);
		if (member)
			r = keys[i].type->parse(
				ctx, &keys[i], member, (char *)base + keys[i].offset);
		else if (keys[i].required && !(meant >> i & 1))
			r = spec_refuse(ctx, "is required: expected %s", keys[i].type->expected);
		if (r < 0 && !spec_go_on(ctx, r))
			return r;
		r = 0;
		spec_leave(ctx, len);
	}
	return r;
}

int spec_format_object(const struct spec_key *keys, const void *base, json_t **ret)
{
	_cleanup_json_ json_t *object = json_object();

	if (!object)
		return -ENOMEM;
	for (; keys->name; keys++) {
		json_t *value = NULL;
		int r = keys->type->format(keys, (const char *)base + keys->offset, &value);

		if (r < 0)
			return r;
		if (value && json_object_set_new(object, keys->name, value) < 0)
			return -ENOMEM;
	}
	*ret = TAKE_PTR(object);
	return 0;
}
