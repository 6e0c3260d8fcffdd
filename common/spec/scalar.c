/* SPDX-License-Identifier: Apache-2.0 */
#include "common/spec/table.h"
#include "common/text/duration.h"
#include "common/text/size.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static int bool_parse(
	struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field)
{
	if (!json_is_boolean(value))
		return spec_expected(ctx, key->type->expected, value);
	*(bool *)field = json_is_true(value);
	return 0;
}

static int bool_format(const struct spec_key *key, const void *field, json_t **ret)
{
	return spec_give(json_boolean(*(const bool *)field), ret);
}

const struct spec_type spec_type_bool = {
	.expected = "true or false",
	.parse = bool_parse,
	.format = bool_format,
};

/* Parses a boolean whose default depends on other keys. */
static int maybe_parse(
	struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field)
{
	if (!json_is_boolean(value))
		return spec_expected(ctx, key->type->expected, value);
	*(int *)field = json_is_true(value);
	return 0;
}

static int maybe_format(const struct spec_key *key, const void *field, json_t **ret)
{
	int value = *(const int *)field;

	return value == SPEC_UNSET ? 0 : spec_give(json_boolean(value), ret);
}

const struct spec_type spec_type_maybe = {
	.expected = "true or false",
	.parse = maybe_parse,
	.format = maybe_format,
};

static int number_parse(struct spec_ctx *ctx, const struct spec_key *key, const json_t *value,
	int64_t largest, int64_t *ret)
{
	int64_t max = key->max ? key->max : largest;
	char expected[96];

	if (json_is_integer(value) && json_integer_value(value) >= key->min &&
		json_integer_value(value) <= max) {
		*ret = json_integer_value(value);
		return 0;
	}
	if (key->max)
		snprintf(expected, sizeof(expected), "an integer from %" PRId64 " to %" PRId64,
			key->min, key->max);
	else if (json_is_integer(value) && json_integer_value(value) > max)
		snprintf(expected, sizeof(expected), "an integer <= %" PRId64, max);
	else
		snprintf(expected, sizeof(expected), "an integer >= %" PRId64, key->min);
	return spec_expected(ctx, expected, value);
}

static int int_parse(
	struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field)
{
	int64_t number;
	int r = number_parse(ctx, key, value, INT_MAX, &number);

	if (r == 0)
		*(int *)field = (int)number;
	return r;
}

static int int_format(const struct spec_key *key, const void *field, json_t **ret)
{
	int number = *(const int *)field;

	return number < key->min ? 0 : spec_give(json_integer(number), ret);
}

const struct spec_type spec_type_int = {
	.expected = "an integer",
	.parse = int_parse,
	.format = int_format,
};

static int int64_parse(
	struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field)
{
	return number_parse(ctx, key, value, INT64_MAX, field);
}

static int int64_format(const struct spec_key *key, const void *field, json_t **ret)
{
	int64_t number = *(const int64_t *)field;

	return number < key->min ? 0 : spec_give(json_integer(number), ret);
}

const struct spec_type spec_type_int64 = {
	.expected = "an integer",
	.parse = int64_parse,
	.format = int64_format,
};

static int duration_key_parse(
	struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field)
{
	int64_t ms = 0;
	const char *text;

	/* A bare number has no unit; only 0 is clear. */
	if (!json_is_integer(value) || json_integer_value(value)) {
		text = spec_text(ctx, key->type->expected, value);
		if (!text || duration_parse(text, ctx->path, &ms, ctx->err) < 0)
			return -EINVAL;
	}
	if (ms < key->min) {
		char expected[64], least[DURATION_TEXT_MAX];

		if (key->min == 1)
			return spec_expected(ctx, "a duration greater than 0", value);
		snprintf(expected, sizeof(expected), "a duration of at least %s",
			duration_format(key->min, least));
		return spec_expected(ctx, expected, value);
	}
	*(int64_t *)field = ms;
	return 0;
}

static int duration_key_format(const struct spec_key *key, const void *field, json_t **ret)
{
	int64_t ms = *(const int64_t *)field;
	char buf[DURATION_TEXT_MAX];

	return ms < key->min ? 0 : spec_give(json_string(duration_format(ms, buf)), ret);
}

const struct spec_type spec_type_duration = {
	.expected = "a duration such as \"500ms\", \"30s\", \"5m\", \"1h30m\" or 0",
	.parse = duration_key_parse,
	.format = duration_key_format,
};

static int size_key_parse(
	struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field)
{
	int64_t bytes;
	const char *text;

	if (json_is_integer(value) && json_integer_value(value) >= 0) {
		bytes = json_integer_value(value);
	} else {
		text = spec_text(ctx, key->type->expected, value);
		if (!text || size_parse(text, ctx->path, &bytes, ctx->err) < 0)
			return -EINVAL;
	}
	if (bytes < key->min)
		return spec_expected(ctx, "a size greater than 0", value);
	*(int64_t *)field = bytes;
	return 0;
}

static int size_key_format(const struct spec_key *key, const void *field, json_t **ret)
{
	int64_t bytes = *(const int64_t *)field;
	char buf[SIZE_TEXT_MAX];

	if (bytes < key->min)
		return 0;
	/* A size without a suffix is written as the number that it is. */
	size_format(bytes, buf);
	if (buf[strspn(buf, "0123456789")])
		return spec_give(json_string(buf), ret);
	return spec_give(json_integer(bytes), ret);
}

const struct spec_type spec_type_size = {
	.expected = "a size such as 4096, \"64K\", \"10M\" or \"1GiB\"",
	.parse = size_key_parse,
	.format = size_key_format,
};

static int enum_parse(
	struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field)
{
	const char *text = json_string_value(value);
	char expected[160] = "";
	size_t n = 0;

	for (int i = 0; text && key->names[i]; i++) {
		if (!strcmp(text, key->names[i])) {
			*(int *)field = i;
			return 0;
		}
	}
	for (int i = 0; key->names[i]; i++)
		n += snprintf(expected + n, sizeof(expected) - n, "%s\"%s\"",
			!i		    ? ""
			: key->names[i + 1] ? ", "
					    : " or ",
			key->names[i]);
	return spec_expected(ctx, expected, value);
}

static int enum_format(const struct spec_key *key, const void *field, json_t **ret)
{
	return spec_give(json_string(key->names[*(const int *)field]), ret);
}

const struct spec_type spec_type_enum = {
	.expected = "one of its names",
	.parse = enum_parse,
	.format = enum_format,
};
