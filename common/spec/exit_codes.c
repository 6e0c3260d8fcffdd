/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/platform.h"
#include "common/base/scan.h"
#include "common/base/signals.h"
#include "common/spec/table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* restart.codes: the exit codes and signals that count, are free, or are fatal. Rules are sorted.
 */

enum { GCE_GPU_EXIT_CODE = 143 };

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

int spec_free_code(struct spec_restart *restart, int code)
{
	struct spec_exit_rule *codes;
	size_t at = 0;

	for (size_t i = 0; i < restart->n_codes; i++) {
		const struct spec_exit_rule *rule = &restart->codes[i];

		if (!rule->is_signal && rule->value == code)
			return 0;
		if (!rule->is_signal && rule->value < code)
			at = i + 1;
	}
	codes = reallocarray(restart->codes, restart->n_codes + 1, sizeof(*codes));
	if (!codes)
		return -ENOMEM;
	memmove(codes + at + 1, codes + at, (restart->n_codes - at) * sizeof(*codes));
	codes[at] = (struct spec_exit_rule){ .value = code, .class = SPEC_EXIT_FREE };
	restart->codes = codes;
	restart->n_codes++;
	return 0;
}

/* Adds the document's rules to the default ones; a rule for the same condition replaces a default.
 */
static int codes_parse(
	struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field)
{
	struct spec_restart *restart = SPEC_STRUCT_OF(field, spec_restart, codes);
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
	qsort(codes, restart->n_codes, sizeof(*codes), rule_order);
	return spec_free_code(restart, SPEC_PREEMPTED_EXIT_CODE) < 0 ? spec_no_memory(ctx) : 0;
}

static int codes_format(const struct spec_key *key, const void *field, json_t **ret)
{
	const struct spec_restart *restart = SPEC_STRUCT_OF(field, spec_restart, codes);
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

int spec_set_exit_code(struct spec *s, int code)
{
	int r = spec_free_code(&s->restart, code);

	for (size_t i = 0; i < s->n_roles && r == 0; i++)
		if (s->roles[i].restart)
			r = spec_free_code(s->roles[i].restart, code);
	if (r == 0)
		s->preemption.exit_code = code;
	return r;
}

int spec_host_exit_code(struct spec *s, const char *dmi_dir, bool gpu)
{
	char details[128];

	if (s->preemption.exit_code != SPEC_UNSET || !gpu ||
		platform_from_dmi(dmi_dir, details, sizeof(details)) != PLATFORM_GCE)
		return 0;
	return spec_set_exit_code(s, GCE_GPU_EXIT_CODE);
}
