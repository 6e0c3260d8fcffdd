/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/scan.h"
#include "common/base/signals.h"
#include "common/spec/table.h"
#include "common/text/ranks.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* Types for one or two keys each: replicas, stream maps, rank sets, exit rules, signals. */

static const struct {
	const char *name;
	int value;
} replica_names[] = {
	{ "auto", SPEC_REPLICAS_AUTO },
	{ "cpu", SPEC_REPLICAS_CPU },
	{ "gpu", SPEC_REPLICAS_GPU },
	{ "xpu", SPEC_REPLICAS_XPU },
};
enum { N_REPLICA_NAMES = sizeof(replica_names) / sizeof(replica_names[0]) };

static int replicas_parse(
	struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field)
{
	const char *text = json_string_value(value);

	if (json_is_integer(value) && json_integer_value(value) >= 1 &&
		json_integer_value(value) <= SPEC_REPLICAS_MAX) {
		*(int *)field = (int)json_integer_value(value);
		return 0;
	}
	for (int i = 0; text && i < N_REPLICA_NAMES; i++) {
		if (!strcmp(text, replica_names[i].name)) {
			*(int *)field = replica_names[i].value;
			return 0;
		}
	}
	return spec_expected(ctx, key->type->expected, value);
}

static int replicas_format(const struct spec_key *key, const void *field, json_t **ret)
{
	int replicas = *(const int *)field;

	for (int i = 0; i < N_REPLICA_NAMES; i++)
		if (replicas == replica_names[i].value)
			return spec_give(json_string(replica_names[i].name), ret);
	return spec_give(json_integer(replicas), ret);
}

const struct spec_type spec_type_replicas = {
	.expected = "an integer from 1 to 4096, \"auto\", \"cpu\", \"gpu\" or \"xpu\"",
	.parse = replicas_parse,
	.format = replicas_format,
};
_Static_assert(SPEC_REPLICAS_MAX == 4096, "the text above says so");

static int std_map_key_parse(
	struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field)
{
	char number[32];
	const char *text = spec_text_or_number(ctx, key->type->expected, value, number);

	return text ? std_map_parse(field, text, ctx->path, ctx->err) : -EINVAL;
}

static int std_map_key_format(const struct spec_key *key, const void *field, json_t **ret)
{
	const struct std_map *map = field;
	_cleanup_free_ char *text = NULL;

	if (!map->n_items)
		return spec_give(json_integer(map->def), ret);
	text = std_map_to_string(map);
	return text ? spec_give(json_string(text), ret) : -ENOMEM;
}

const struct spec_type spec_type_std_map = {
	.expected = "0, 1 (stdout), 2 (stderr), 3 (both) or a map such as \"0:1,12:3\"",
	.parse = std_map_key_parse,
	.format = std_map_key_format,
};

static int rank_from_number(struct spec_ctx *ctx, const json_t *value, struct ranks *set)
{
	json_int_t number = json_integer_value(value);

	if (!json_is_integer(value) || number < 0 || number > RANKS_MAX)
		return spec_expected(ctx, "a rank from 0 to 1048576", value);
	return ranks_add(set, (int)number, (int)number) < 0 ? spec_no_memory(ctx) : 0;
}

static int ranks_from_array(struct spec_ctx *ctx, const json_t *value, struct ranks *set)
{
	for (size_t i = 0; i < json_array_size(value); i++) {
		size_t len = spec_enter_index(ctx, i);
		int r = rank_from_number(ctx, json_array_get(value, i), set);

		if (r < 0 && !spec_go_on(ctx, r))
			return r;
		spec_leave(ctx, len);
	}
	return 0;
}

static int ranks_key_parse(
	struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field)
{
	struct ranks set = { 0 };
	_cleanup_free_ char *shortest = NULL;
	const char *text;
	int r;

	if (json_array_size(value)) {
		r = ranks_from_array(ctx, value, &set);
	} else if (json_is_integer(value)) {
		r = rank_from_number(ctx, value, &set);
	} else {
		text = spec_text(ctx, key->type->expected, value);
		r = text ? ranks_parse(&set, text, ctx->path, ctx->err) : -EINVAL;
	}
	if (r == 0) {
		shortest = ranks_to_string(&set);
		r = shortest ? spec_set_string(ctx, shortest, field) : spec_no_memory(ctx);
	}
	ranks_fini(&set);
	return r;
}

const struct spec_type spec_type_ranks = {
	.expected = "a set of ranks such as \"0,3-7\" or [0, 3, 4]",
	.parse = ranks_key_parse,
	.format = spec_format_text,
};

static int prefix_parse(
	struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field)
{
	static const char *const known[] = { "role", "role_name", "index", "rank", "local_rank",
		"host", NULL };
	const char *text = spec_text(ctx, key->type->expected, value);

	if (!text)
		return -EINVAL;
	if (spec_check_variables(
		    ctx, text, known, "${role}, ${index}, ${rank}, ${local_rank} and ${host}"))
		return -EINVAL;
	return spec_set_string(ctx, text, field);
}

const struct spec_type spec_type_prefix = {
	.expected = "a string",
	.parse = prefix_parse,
	.format = spec_format_text,
};

static const char *const class_names[] = {
	[SPEC_EXIT_COUNT] = "count",
	[SPEC_EXIT_FREE] = "free",
	[SPEC_EXIT_FATAL] = "fatal",
};

static int class_parse(struct spec_ctx *ctx, const json_t *value, enum spec_exit_class *ret)
{
	const char *text = json_string_value(value);

	for (int i = 0; text && i < 3; i++) {
		if (!strcmp(text, class_names[i])) {
			*ret = i;
			return 0;
		}
	}
	return spec_expected(ctx, "\"free\", \"fatal\" or \"count\"", value);
}

/* "42" is an exit code, "SEGV" a signal. A signal's number is refused: it would look like a code.
 */
static int condition_parse(struct spec_ctx *ctx, const char *name, struct spec_exit_rule *ret)
{
	uint64_t code = 0;
	int r = scan_whole(name, 255, &code);

	if (r == 0 && code) {
		ret->value = (int)code;
		return 0;
	}
	ret->is_signal = true;
	ret->value = r == -EINVAL ? signals_from_string(name) : -EINVAL;
	if (ret->value < 0)
		return spec_refuse(
			ctx, "expected an exit code from 1 to 255 or the name of a signal");
	return 0;
}

static int rule_order(const void *a, const void *b)
{
	const struct spec_exit_rule *x = a, *y = b;

	return x->is_signal != y->is_signal ? x->is_signal - y->is_signal : x->value - y->value;
}

static struct spec_restart *restart_of(const void *field)
{
	return (struct spec_restart *)((char *)field - offsetof(struct spec_restart, codes));
}

/* SEGV and SIGSEGV, or 42 and 042, are the same condition. */
static bool has_rule(const struct spec_restart *r, const struct spec_exit_rule *rule)
{
	for (size_t i = 0; i < r->n_codes; i++)
		if (!rule_order(&r->codes[i], rule))
			return true;
	return false;
}

static int rule_parse(
	struct spec_ctx *ctx, struct spec_restart *restart, const char *name, const json_t *value)
{
	struct spec_exit_rule rule = { 0 };
	size_t len = spec_enter(ctx, name);
	int r = condition_parse(ctx, name, &rule);

	if (r == 0)
		r = class_parse(ctx, value, &rule.class);
	if (r < 0)
		return r;
	if (has_rule(restart, &rule))
		return spec_refuse(ctx, "names a condition for the second time");
	restart->codes[restart->n_codes++] = rule;
	spec_leave(ctx, len);
	return 0;
}

/* Adds the document's rules to the default ones; a rule for the same condition replaces a default.
 */
static int codes_parse(
	struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field)
{
	static const struct spec_exit_rule preempted = { false, 42, SPEC_EXIT_FREE };
	struct spec_restart *restart = restart_of(field);
	struct spec_exit_rule *codes;
	const char *name;
	json_t *member;

	if (!json_is_object(value))
		return spec_expected(ctx, key->type->expected, value);
	codes = reallocarray(restart->codes, json_object_size(value) + 1, sizeof(*codes));
	if (!codes)
		return spec_no_memory(ctx);
	restart->codes = codes;
	restart->n_codes = 0;
	json_object_foreach ((json_t *)value, name, member) {
		size_t len = ctx->len;
		int r = rule_parse(ctx, restart, name, member);

		if (r < 0 && !spec_go_on(ctx, r))
			return r;
		spec_leave(ctx, len);
	}
	if (!has_rule(restart, &preempted))
		codes[restart->n_codes++] = preempted;
	qsort(codes, restart->n_codes, sizeof(*codes), rule_order);
	return 0;
}

static int codes_format(const struct spec_key *key, const void *field, json_t **ret)
{
	const struct spec_restart *restart = restart_of(field);
	_cleanup_json_ json_t *object = json_object();

	for (size_t i = 0; i < restart->n_codes; i++) {
		const struct spec_exit_rule *rule = &restart->codes[i];
		char name[SIGNALS_TEXT_MAX];

		if (rule->is_signal)
			signals_name(rule->value, name);
		else
			snprintf(name, sizeof(name), "%d", rule->value);
		if (json_object_set_new(object, name, json_string(class_names[rule->class])) < 0)
			return -ENOMEM;
	}
	*ret = TAKE_PTR(object);
	return *ret ? 0 : -ENOMEM;
}

const struct spec_type spec_type_codes = {
	.expected = "an object of exit codes and signals",
	.parse = codes_parse,
	.format = codes_format,
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
