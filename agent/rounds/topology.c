/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/rounds/topology.h"

#include "agent/rounds/natural.h"

#include <stdlib.h>
#include <string.h>

int topology_compare(const char *a, const char *b, int depth)
{
	for (; depth > 0 && *a && *b; depth--) {
		int r = natural_compare(a, b);

		if (r)
			return r;
		a += strlen(a) + 1;
		b += strlen(b) + 1;
	}
	return depth ? !!*a - !!*b : 0;
}

size_t topology_bytes(const char *parts)
{
	const char *p = parts;

	while (*p)
		p += strlen(p) + 1;
	return (size_t)(p - parts) + 1;
}

static int topology_compare_vacancies(const void *x, const void *y)
{
	const struct topology_vacancy *a = x, *b = y;
	int r = topology_compare(a->parts, b->parts, TOPOLOGY_PARTS_MAX);

	return r ? r : a->rank < b->rank ? -1 : 1;
}

static int topology_compare_spares(const void *x, const void *y)
{
	const struct topology_spare *a = x, *b = y;
	int r = topology_compare(a->parts, b->parts, TOPOLOGY_PARTS_MAX);

	return r ? r : a->turn < b->turn ? -1 : 1;
}

/* Gives vacancies to spares without a place that share depth parts. Returns how many are left. */
static int topology_match_at(
	struct topology_vacancy *vacancies, int n, struct topology_spare *spares, int m, int depth)
{
	int left = 0, s = 0;

	for (int v = 0; v < n; v++) {
		int r = 1;

		while (s < m && (spares[s].rank >= 0 || (r = topology_compare(spares[s].parts,
								 vacancies[v].parts, depth)) < 0)) {
			s++;
			r = 1;
		}
		if (s < m && !r && *spares[s].parts)
			spares[s++].rank = vacancies[v].rank;
		else
			vacancies[left++] = vacancies[v];
	}
	return left;
}

int topology_match(struct topology_vacancy *vacancies, int n, struct topology_spare *spares, int m)
{
	qsort(vacancies, (size_t)n, sizeof(*vacancies), topology_compare_vacancies);
	qsort(spares, (size_t)m, sizeof(*spares), topology_compare_spares);
	for (int depth = TOPOLOGY_PARTS_MAX; depth > 0 && n; depth--)
		n = topology_match_at(vacancies, n, spares, m, depth);
	return n;
}
