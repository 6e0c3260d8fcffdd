/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/similar.h"

#include <string.h>

size_t similar_distance(const char *a, const char *b)
{
	size_t d[SIMILAR_MAX + 1][SIMILAR_MAX + 1];
	size_t n = strlen(a), m = strlen(b);

	if (n > SIMILAR_MAX || m > SIMILAR_MAX)
		return SIMILAR_MAX;
	for (size_t i = 0; i <= n; i++) {
		for (size_t j = 0; j <= m; j++) {
			size_t best;

			if (!i || !j) {
				d[i][j] = i + j;
				continue;
			}
			best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
			if (d[i - 1][j] + 1 < best)
				best = d[i - 1][j] + 1;
			if (d[i][j - 1] + 1 < best)
				best = d[i][j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
				d[i - 2][j - 2] + 1 < best)
				best = d[i - 2][j - 2] + 1;
			d[i][j] = best;
		}
	}
	return d[n][m];
}

size_t similar_limit(const char *word)
{
	return strlen(word) < 4 ? 1 : 2;
}
