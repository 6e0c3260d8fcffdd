/* SPDX-License-Identifier: Apache-2.0 */
#include "common/text/ranks.h"

#include "common/base/cleanup.h"
#include "common/base/memstream.h"
#include "common/base/quote.h"
#include "common/base/scan.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

void ranks_fini(struct ranks *r)
{
	free(r->ranges);
	*r = (struct ranks){ 0 };
}

/* The first range that ends at or after rank; n_ranges when there is none. */
static size_t find_range(const struct ranks *r, int rank)
{
	size_t lo = 0, hi = r->n_ranges;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (r->ranges[mid].last < rank)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

int ranks_add(struct ranks *r, int first, int last)
{
	/* Everything from i up to, not including, end overlaps or touches the new range. */
	size_t i = find_range(r, first - 1), end = i;
	struct ranks_range *ranges;

	for (; end < r->n_ranges && r->ranges[end].first <= last + 1; end++) {
		if (r->ranges[end].first < first)
			first = r->ranges[end].first;
		if (r->ranges[end].last > last)
			last = r->ranges[end].last;
	}
	if (i == end) {
		ranges = reallocarray(r->ranges, r->n_ranges + 1, sizeof(*ranges));
		if (!ranges)
			return -ENOMEM;
		r->ranges = ranges;
		memmove(ranges + i + 1, ranges + i, (r->n_ranges - i) * sizeof(*ranges));
		r->n_ranges++;
	} else {
		memmove(r->ranges + i + 1, r->ranges + end,
			(r->n_ranges - end) * sizeof(*r->ranges));
		r->n_ranges -= end - i - 1;
	}
	r->ranges[i] = (struct ranks_range){ first, last };
	return 0;
}

static int scan_rank(const char **p, int *ret_rank)
{
	uint64_t value;
	int r;

	*p += strspn(*p, " ");
	r = scan_u64(p, &value);
	if (r < 0)
		return r;
	*p += strspn(*p, " ");
	if (value > RANKS_MAX)
		return -ERANGE;
	*ret_rank = (int)value;
	return 0;
}

/* One "3" or "3-7". */
static int scan_range(const char **p, struct ranks_range *ret)
{
	int r = scan_rank(p, &ret->first);

	ret->last = ret->first;
	if (r == 0 && **p == '-') {
		(*p)++;
		r = scan_rank(p, &ret->last);
		if (r == 0 && ret->last < ret->first)
			r = -EDOM;
	}
	return r;
}

int ranks_parse(struct ranks *ret, const char *text, const char *field, struct error *err)
{
	struct ranks set = { 0 };
	const char *p = text;
	char q[QUOTE_MAX];
	int r;

	for (;;) {
		struct ranks_range range = { 0 };

		r = scan_range(&p, &range);
		if (r == 0 && *p && *p != ',')
			r = -EINVAL;
		if (r == 0)
			r = ranks_add(&set, range.first, range.last);
		if (r < 0 || !*p)
			break;
		p++;
	}
	if (r == 0) {
		ranks_fini(ret);
		*ret = set;
		return 0;
	}
	ranks_fini(&set);
	quote_text(text, q);
	if (r == -ENOMEM)
		return error_field(err, r, field, "out of memory");
	if (r == -ERANGE)
		return error_field(
			err, -EINVAL, field, "expected ranks from 0 to %d, got %s", RANKS_MAX, q);
	if (r == -EDOM)
		return error_field(err, -EINVAL, field,
			"expected ranges from low to high such as \"3-7\", got %s", q);
	return error_field(
		err, -EINVAL, field, "expected a set of ranks such as \"0,3-7\", got %s", q);
}

bool ranks_contains(const struct ranks *r, int rank)
{
	size_t i = find_range(r, rank);

	return i < r->n_ranges && r->ranges[i].first <= rank;
}

int ranks_next(const struct ranks *r, int rank)
{
	size_t i = find_range(r, rank + 1);

	if (i == r->n_ranges)
		return -1;
	return r->ranges[i].first > rank ? r->ranges[i].first : rank + 1;
}

int ranks_count(const struct ranks *r)
{
	int n = 0;

	for (size_t i = 0; i < r->n_ranges; i++)
		n += r->ranges[i].last - r->ranges[i].first + 1;
	return n;
}

char *ranks_to_string(const struct ranks *r)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	for (size_t i = 0; i < r->n_ranges; i++) {
		const struct ranks_range *g = &r->ranges[i];

		fprintf(f, "%s%d", i ? "," : "", g->first);
		if (g->last > g->first)
			fprintf(f, "%c%d", g->last > g->first + 1 ? '-' : ',', g->last);
	}
	return memstream_end(f, &text);
}
