/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/quote.h"
#include "common/spec/table.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

/* Texts with variables that each worker has its own values of. */

/* Refuses a text with a variable "${name}" that is not in known (NULL-ended); expected lists them
 * for people. "$$" is a dollar sign, so "$${name}" is not a variable. */
static int check_variables(
	struct spec_ctx *ctx, const char *text, const char *const *known, const char *expected)
{
	for (const char *p = strchr(text, '$'); p; p = strchr(p, '$')) {
		size_t n, i = 0;
		char q[QUOTE_MAX];

		if (p[1] != '{') {
			p += p[1] == '$' ? 2 : 1;
			continue;
		}
		n = strcspn(p + 2, "}");
		while (known[i] && (strlen(known[i]) != n || memcmp(p + 2, known[i], n)))
			i++;
		if (!known[i] || !p[2 + n])
			return spec_refuse(ctx, "expected the variables %s, got %s", expected,
				quote_text(p, q));
		p += 2;
	}
	return 0;
}

static int prefix_parse(
	struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field)
{
	static const char *const known[] = { "role", "role_name", "index", "rank", "local_rank",
		"host", NULL };
	const char *text = spec_text(ctx, key->type->expected, value);

	if (!text)
		return -EINVAL;
	if (check_variables(
		    ctx, text, known, "${role}, ${index}, ${rank}, ${local_rank} and ${host}"))
		return -EINVAL;
	return spec_set_string(ctx, text, field);
}

const struct spec_type spec_type_prefix = {
	.expected = "a string",
	.parse = prefix_parse,
	.format = spec_format_text,
};

static int worker_path_parse(
	struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field)
{
	static const char *const known[] = { "rank", "local_rank", "role", "index", NULL };
	const char *text = spec_text(ctx, key->type->expected, value);

	if (!text)
		return -EINVAL;
	if (!*text)
		return spec_expected(ctx, key->type->expected, value);
	if (strlen(text) >= PATH_MAX)
		return spec_refuse(ctx, "expected a path of less than %d bytes, got %zu", PATH_MAX,
			strlen(text));
	if (check_variables(ctx, text, known, "${rank}, ${local_rank}, ${role} and ${index}"))
		return -EINVAL;
	return spec_set_string(ctx, text, field);
}

const struct spec_type spec_type_worker_path = {
	.expected = "a path",
	.parse = worker_path_parse,
	.format = spec_format_text,
};
