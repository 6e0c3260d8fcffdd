/* SPDX-License-Identifier: Apache-2.0 */
#include "common/text/stdmap.h"

#include "common/base/cleanup.h"
#include "common/base/memstream.h"
#include "common/base/quote.h"
#include "common/base/scan.h"
#include "common/text/ranks.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void std_map_fini(struct std_map *map)
{
	free(map->items);
	*map = (struct std_map){ 0 };
}

/* The index of rank, or where it would be inserted. */
static size_t find_rank(const struct std_map *map, int rank)
{
	size_t lo = 0, hi = map->n_items;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (map->items[mid].rank < rank)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* -EEXIST if the rank is there already. */
static int insert_rank(struct std_map *map, int rank, int value)
{
	size_t i = find_rank(map, rank);
	struct std_map_item *items;

	if (i < map->n_items && map->items[i].rank == rank)
		return -EEXIST;
	items = reallocarray(map->items, map->n_items + 1, sizeof(*items));
	if (!items)
		return -ENOMEM;
	memmove(items + i + 1, items + i, (map->n_items - i) * sizeof(*items));
	items[i] = (struct std_map_item){ rank, value };
	map->items = items;
	map->n_items++;
	return 0;
}

/* Reads one digit 0..3 at *p; the caller checks what follows. */
static int scan_value(const char **p, int *ret_value)
{
	if (**p < '0' || **p > '0' + STD_BOTH)
		return -EINVAL;
	*ret_value = *(*p)++ - '0';
	return 0;
}

/* Parses "rank:value,...". Errors name no position, since the text is short. */
static int parse_items(struct std_map *map, const char *p, int *ret_rank)
{
	for (;;) {
		uint64_t rank;
		int value, r;

		r = scan_u64(&p, &rank);
		if (r < 0)
			return r;
		if (rank > RANKS_MAX)
			return -ERANGE;
		if (*p++ != ':' || scan_value(&p, &value) < 0 || (*p && *p != ','))
			return -EINVAL;
		*ret_rank = (int)rank;
		r = insert_rank(map, *ret_rank, value);
		if (r < 0 || !*p)
			return r;
		p++;
	}
}

int std_map_parse(struct std_map *map, const char *text, const char *field, struct error *err)
{
	struct std_map parsed = { 0 };
	const char *p = text;
	char q[QUOTE_MAX];
	int rank = -1, r = 0;

	if (scan_value(&p, &parsed.def) < 0 || *p) {
		parsed.def = 0;
		r = parse_items(&parsed, text, &rank);
	}
	if (r == 0) {
		std_map_fini(map);
		*map = parsed;
		return 0;
	}
	std_map_fini(&parsed);
	quote_text(text, q);
	if (r == -ENOMEM)
		return error_field(err, r, field, "out of memory");
	if (r == -EEXIST)
		return error_field(err, -EINVAL, field, "rank %d is named twice in %s", rank, q);
	if (r == -ERANGE)
		return error_field(
			err, -EINVAL, field, "expected ranks from 0 to %d, got %s", RANKS_MAX, q);
	return error_field(err, -EINVAL, field,
		"expected 0, 1 (stdout), 2 (stderr), 3 (both) or a map such as \"0:1,12:3\", got %s",
		q);
}

int std_map_get(const struct std_map *map, int rank)
{
	size_t i = find_rank(map, rank);

	return i < map->n_items && map->items[i].rank == rank ? map->items[i].value : map->def;
}

bool std_map_empty(const struct std_map *map)
{
	if (map->def)
		return false;
	for (size_t i = 0; i < map->n_items; i++)
		if (map->items[i].value)
			return false;
	return true;
}

char *std_map_to_string(const struct std_map *map)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	if (!map->n_items)
		fprintf(f, "%d", map->def);
	for (size_t i = 0; i < map->n_items; i++)
		fprintf(f, "%s%d:%d", i ? "," : "", map->items[i].rank, map->items[i].value);
	return memstream_end(f, &text);
}
