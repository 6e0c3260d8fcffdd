/* SPDX-License-Identifier: Apache-2.0 */
#include "common/text/ranks.h"
#include "common/spec/table.h"

#include <errno.h>
#include <stdlib.h>

/* Types of keys that choose ranks: a set of ranks, and the streams of each rank. */

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
