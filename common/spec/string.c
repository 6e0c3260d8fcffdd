/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/signals.h"
#include "common/spec/table.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* Strings, and numbers that are written as strings: a umask, a signal, several signals. */

static int string_parse(
	struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field)
{
	const char *text = spec_text(ctx, key->type->expected, value);

	if (!text)
		return -EINVAL;
	if (!*text)
		return spec_expected(ctx, key->type->expected, value);
	return spec_set_string(ctx, text, field);
}

const struct spec_type spec_type_string = {
	.expected = "a string that is not empty",
	.parse = string_parse,
	.format = spec_format_text,
};

/* Only the client knows the directory that a relative path starts from: refuses one. */
static int path_parse(
	struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field)
{
	const char *text = spec_text(ctx, key->type->expected, value);

	if (!text)
		return -EINVAL;
	if (*text != '/')
		return spec_expected(ctx, key->type->expected, value);
	if (strlen(text) >= PATH_MAX)
		return spec_refuse(ctx, "expected a path of less than %d bytes, got %zu", PATH_MAX,
			strlen(text));
	return spec_set_string(ctx, text, field);
}

const struct spec_type spec_type_path = {
	.expected = "an absolute path",
	.parse = path_parse,
	.format = spec_format_text,
};

static int name_parse(
	struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field)
{
	const char *text = spec_text(ctx, key->type->expected, value);
	struct error why = { 0 };

	if (!text)
		return -EINVAL;
	if (spec_check_name(text, &why) < 0)
		return spec_refuse(ctx, "%s", why.text);
	return spec_set_string(ctx, text, field);
}

const struct spec_type spec_type_name = {
	.expected = "a job's name",
	.parse = name_parse,
	.format = spec_format_text,
};

/* "job/role:index" names a worker, so a role's name cannot contain either separator. */
static int role_name_parse(
	struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field)
{
	static const char ok[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
	const char *text = spec_text(ctx, key->type->expected, value);
	size_t len;

	if (!text)
		return -EINVAL;
	len = strlen(text);
	if (!len || len > 64 || strspn(text, ok) != len)
		return spec_expected(ctx, key->type->expected, value);
	return spec_set_string(ctx, text, field);
}

const struct spec_type spec_type_role_name = {
	.expected = "a role's name of 1 to 64 letters, digits, '.', '_' and '-'",
	.parse = role_name_parse,
	.format = spec_format_text,
};

static int variable_parse(
	struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field)
{
	const char *text = spec_text(ctx, key->type->expected, value);

	if (!text)
		return -EINVAL;
	if (!*text || strchr(text, '='))
		return spec_expected(ctx, key->type->expected, value);
	return spec_set_string(ctx, text, field);
}

const struct spec_type spec_type_variable = {
	.expected = "the name of a variable",
	.parse = variable_parse,
	.format = spec_format_text,
};

static int umask_parse(
	struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field)
{
	/* Refuses a number: JSON and YAML readers do not tell 022 from 22. */
	const char *text = spec_text(ctx, key->type->expected, value);
	size_t len;

	if (!text)
		return -EINVAL;
	len = strlen(text);
	if (!len || len > 4 || strspn(text, "01234567") != len || (len == 4 && *text != '0'))
		return spec_expected(ctx, key->type->expected, value);
	*(int *)field = (int)strtol(text, NULL, 8);
	return 0;
}

static int umask_format(const struct spec_key *key, const void *field, json_t **ret)
{
	int mask = *(const int *)field;
	char buf[16];

	if (mask == SPEC_UNSET)
		return 0;
	snprintf(buf, sizeof(buf), "%03o", (unsigned int)mask);
	return spec_give(json_string(buf), ret);
}

const struct spec_type spec_type_umask = {
	.expected = "an octal string from \"000\" to \"777\"",
	.parse = umask_parse,
	.format = umask_format,
};

static int signal_parse(
	struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field)
{
	char number[32];
	const char *text = spec_text_or_number(ctx, spec_type_signal.expected, value, number);

	return text ? signals_parse(text, ctx->path, field, ctx->err) : -EINVAL;
}

static int signal_format(const struct spec_key *key, const void *field, json_t **ret)
{
	int signo = *(const int *)field;
	char buf[SIGNALS_TEXT_MAX];

	return signo ? spec_give(json_string(signals_short(signo, buf)), ret) : 0;
}

const struct spec_type spec_type_signal = {
	.expected = "a signal such as \"TERM\", \"SIGUSR1\", \"RTMIN+3\" or 15",
	.parse = signal_parse,
	.format = signal_format,
};

/* The agent cannot catch SIGKILL and SIGSTOP, and needs SIGCHLD itself. */
static bool can_forward(int signo)
{
	return signo != SIGKILL && signo != SIGSTOP && signo != SIGCHLD;
}

static int signals_key_parse(
	struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field)
{
	int **list = field;
	size_t n = json_array_size(value);

	if (!json_is_array(value) || n > NSIG)
		return spec_expected(ctx, key->type->expected, value);
	free(*list);
	*list = calloc(n + 1, sizeof(**list));
	if (!*list)
		return spec_no_memory(ctx);
	for (size_t i = 0, k = 0; i < n; i++) {
		const json_t *element = json_array_get(value, i);
		size_t len = spec_enter_index(ctx, i);
		int r = spec_type_signal.parse(ctx, key, element, &(*list)[k]);

		if (r == 0 && !can_forward((*list)[k]))
			r = spec_expected(ctx, "a signal that can be caught", element);
		if (r < 0 && !spec_go_on(ctx, r))
			return r;
		k += r == 0;
		spec_leave(ctx, len);
	}
	return 0;
}

static int signals_key_format(const struct spec_key *key, const void *field, json_t **ret)
{
	const int *list = *(int *const *)field;
	_cleanup_json_ json_t *array = json_array();

	for (; list && *list; list++) {
		char name[SIGNALS_TEXT_MAX];

		if (json_array_append_new(array, json_string(signals_short(*list, name))) < 0)
			return -ENOMEM;
	}
	*ret = TAKE_PTR(array);
	return *ret ? 0 : -ENOMEM;
}

const struct spec_type spec_type_signals = {
	.expected = "an array of signals",
	.parse = signals_key_parse,
	.format = signals_key_format,
};
