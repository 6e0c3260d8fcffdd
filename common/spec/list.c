/* SPDX-License-Identifier: Apache-2.0 */
#include "common/spec/table.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Arrays of strings, and environments, which are objects kept as "NAME=value". */

#define REPLICAS "an array with one entry per replica"

/* One element of an array of strings. An empty one is refused where nonempty is set. */
static int word_parse(
	struct spec_ctx *ctx, const json_t *value, size_t i, bool nonempty, char **ret)
{
	const char *expected = nonempty ? "a string that is not empty" : "a string";
	size_t len = spec_enter_index(ctx, i);
	const char *text;
	int r;

	/* People easily leave numbers in a command unquoted: says how to write them. */
	if (json_is_integer(value))
		return spec_refuse(ctx,
			"expected %s, got %" JSON_INTEGER_FORMAT ": write it in quotes", expected,
			json_integer_value(value));
	text = spec_text(ctx, expected, value);
	if (!text)
		return -EINVAL;
	if (nonempty && !*text)
		return spec_expected(ctx, expected, value);
	r = spec_set_string(ctx, text, ret);
	spec_leave(ctx, len);
	return r;
}

/* Makes a NULL-ended array of value's words; on failure *ret holds the words so far. */
static int words_parse(struct spec_ctx *ctx, const json_t *value, bool nonempty, char ***ret)
{
	size_t n = json_array_size(value);

	if (!json_is_array(value))
		return spec_expected(ctx, "an array of strings", value);
	*ret = calloc(n + 1, sizeof(**ret));
	if (!*ret)
		return spec_no_memory(ctx);
	for (size_t i = 0, k = 0; i < n; i++) {
		size_t len = ctx->len;
		int r = word_parse(ctx, json_array_get(value, i), i, nonempty, &(*ret)[k]);

		if (r < 0 && !spec_go_on(ctx, r))
			return r;
		k += r == 0;
		spec_leave(ctx, len);
	}
	return 0;
}

static int words_format(char *const *words, json_t **ret)
{
	_cleanup_json_ json_t *array = json_array();

	if (!array)
		return -ENOMEM;
	for (size_t i = 0; words && words[i]; i++)
		if (json_array_append_new(array, json_string(words[i])) < 0)
			return -ENOMEM;
	*ret = TAKE_PTR(array);
	return 0;
}

static int command_parse(
	struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field)
{
	char ***words = field;
	int r;

	if (!json_is_array(value) || !json_array_size(value))
		return spec_expected(ctx, key->type->expected, value);
	r = words_parse(ctx, value, false, words);
	if (r < 0)
		return r;
	if ((*words)[0] && !(*words)[0][0]) {
		spec_enter_index(ctx, 0);
		return spec_refuse(ctx, "expected a program, got \"\"");
	}
	return 0;
}

static int command_format(const struct spec_key *key, const void *field, json_t **ret)
{
	return words_format(*(char **const *)field, ret);
}

const struct spec_type spec_type_command = {
	.expected = "an array of at least one string",
	.parse = command_parse,
	.format = command_format,
};

static int optional_command_format(const struct spec_key *key, const void *field, json_t **ret)
{
	char **const *words = field;

	return *words ? command_format(key, field, ret) : 0;
}

const struct spec_type spec_type_optional_command = {
	.expected = "an array of at least one string",
	.parse = command_parse,
	.format = optional_command_format,
};

static int texts_parse(
	struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field)
{
	char ***words = field;
	int r = words_parse(ctx, value, true, words);

	/* An empty list is the same as no key. */
	if (r == 0 && !(*words)[0]) {
		free(*words);
		*words = NULL;
	}
	return r;
}

static int texts_format(const struct spec_key *key, const void *field, json_t **ret)
{
	char **words = *(char **const *)field;

	return words ? words_format(words, ret) : 0;
}

const struct spec_type spec_type_texts = {
	.expected = "an array of strings",
	.parse = texts_parse,
	.format = texts_format,
};

/* One element of a per-replica list, as its kind parses it. */
typedef int (*element_fn)(struct spec_ctx *ctx, const json_t *value, char ***ret);

static int list_parse(
	struct spec_ctx *ctx, const json_t *value, element_fn fn, char ****ret_lists, size_t *ret_n)
{
	size_t n = json_array_size(value);

	if (!json_is_array(value))
		return spec_expected(ctx, REPLICAS, value);
	if (n > SPEC_REPLICAS_MAX)
		return spec_refuse(
			ctx, "expected at most %d entries, got %zu", SPEC_REPLICAS_MAX, n);
	if (!n)
		return 0;
	*ret_lists = calloc(n, sizeof(**ret_lists));
	if (!*ret_lists)
		return spec_no_memory(ctx);
	*ret_n = n;
	for (size_t i = 0; i < n; i++) {
		size_t len = spec_enter_index(ctx, i);
		int r = fn(ctx, json_array_get(value, i), &(*ret_lists)[i]);

		if (r < 0 && !spec_go_on(ctx, r))
			return r;
		spec_leave(ctx, len);
	}
	return 0;
}

static int args_element(struct spec_ctx *ctx, const json_t *value, char ***ret)
{
	return words_parse(ctx, value, false, ret);
}

static int args_parse(
	struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field)
{
	struct spec_role *role = SPEC_STRUCT_OF(field, spec_role, args);

	return list_parse(ctx, value, args_element, &role->args, &role->n_args);
}

static int args_format(const struct spec_key *key, const void *field, json_t **ret)
{
	const struct spec_role *role = SPEC_STRUCT_OF(field, spec_role, args);
	_cleanup_json_ json_t *array = NULL;

	if (!role->n_args)
		return 0;
	array = json_array();
	for (size_t i = 0; i < role->n_args; i++) {
		json_t *words = NULL;

		if (words_format(role->args[i], &words) < 0 ||
			json_array_append_new(array, words) < 0)
			return -ENOMEM;
	}
	*ret = TAKE_PTR(array);
	return 0;
}

const struct spec_type spec_type_args = {
	.expected = REPLICAS,
	.parse = args_parse,
	.format = args_format,
};

/* The shortest decimal text that reads back as value: 0.1, not 0.10000000000000001. */
static void real_text(double value, char *buf, size_t size)
{
	for (int digits = 1; digits <= 17; digits++) {
		snprintf(buf, size, "%.*g", digits, value);
		if (strtod(buf, NULL) == value)
			return;
	}
}

/* The text of a string, number or boolean, in buf if it has to be made; NULL after an error. */
static const char *env_value(struct spec_ctx *ctx, const json_t *value, char *buf, size_t size)
{
	switch (json_typeof(value)) {
	case JSON_INTEGER:
		snprintf(buf, size, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
		return buf;
	case JSON_REAL:
		real_text(json_real_value(value), buf, size);
		return buf;
	case JSON_TRUE:
		return "true";
	case JSON_FALSE:
		return "false";
	default:
		return spec_text(ctx, "a string, a number or a boolean", value);
	}
}

static int env_entry(struct spec_ctx *ctx, const char *name, const json_t *value, char **ret)
{
	size_t len;
	char number[64];
	const char *text;

	if (!*name || strchr(name, '='))
		return spec_refuse(ctx, "expected names of variables, got \"%.40s\"", name);
	len = spec_enter(ctx, name);
	text = env_value(ctx, value, number, sizeof(number));
	if (!text)
		return -EINVAL;
	if (strlen(name) + 1 + strlen(text) >= SPEC_STRING_MAX)
		return spec_refuse(
			ctx, "expected less than %d bytes of name and value", SPEC_STRING_MAX);
	ctx->bytes += strlen(name) + 1;
	if (asprintf(ret, "%s=%s", name, text) < 0) {
		*ret = NULL;
		return spec_no_memory(ctx);
	}
	spec_leave(ctx, len);
	return 0;
}

static int env_object(struct spec_ctx *ctx, const json_t *value, char ***ret)
{
	const char *name;
	json_t *member;
	size_t i = 0;

	if (!json_is_object(value))
		return spec_expected(ctx, "an object of variables", value);
	*ret = calloc(json_object_size(value) + 1, sizeof(**ret));
	if (!*ret)
		return spec_no_memory(ctx);
	json_object_foreach ((json_t *)value, name, member) {
		size_t len = ctx->len;
		int r = env_entry(ctx, name, member, &(*ret)[i]);

		if (r < 0 && !spec_go_on(ctx, r))
			return r;
		i += r == 0;
		spec_leave(ctx, len);
	}
	return 0;
}

static int env_to_json(char *const *env, json_t **ret)
{
	_cleanup_json_ json_t *object = json_object();

	for (size_t i = 0; env && env[i]; i++) {
		const char *sep = strchr(env[i], '=');
		_cleanup_free_ char *name = strndup(env[i], sep - env[i]);

		if (!name || json_object_set_new(object, name, json_string(sep + 1)) < 0)
			return -ENOMEM;
	}
	*ret = TAKE_PTR(object);
	return *ret ? 0 : -ENOMEM;
}

static int env_parse(
	struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field)
{
	return env_object(ctx, value, field);
}

static int env_format(const struct spec_key *key, const void *field, json_t **ret)
{
	char **env = *(char **const *)field;

	return env && env[0] ? env_to_json(env, ret) : 0;
}

const struct spec_type spec_type_env = {
	.expected = "an object of variables",
	.parse = env_parse,
	.format = env_format,
};

static int env_list_parse(
	struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field)
{
	struct spec_role *role = SPEC_STRUCT_OF(field, spec_role, env_per_replica);

	return list_parse(ctx, value, env_object, &role->env_per_replica, &role->n_env_per_replica);
}

static int env_list_format(const struct spec_key *key, const void *field, json_t **ret)
{
	const struct spec_role *role = SPEC_STRUCT_OF(field, spec_role, env_per_replica);
	_cleanup_json_ json_t *array = NULL;

	if (!role->n_env_per_replica)
		return 0;
	array = json_array();
	for (size_t i = 0; i < role->n_env_per_replica; i++) {
		json_t *object = NULL;

		if (env_to_json(role->env_per_replica[i], &object) < 0 ||
			json_array_append_new(array, object) < 0)
			return -ENOMEM;
	}
	*ret = TAKE_PTR(array);
	return 0;
}

const struct spec_type spec_type_env_list = {
	.expected = REPLICAS,
	.parse = env_list_parse,
	.format = env_list_format,
};
