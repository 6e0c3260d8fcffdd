/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/policy/cooldown.h"

#include "common/base/backoff.h"

#include <string.h>

enum { COOLDOWN_FIRST_MS = 1000, COOLDOWN_MOST_MS = 60000 };

uint64_t cooldown_failed(
	struct cooldown *c, const struct spec_health *h, uint64_t now_ms, bool *ret_over)
{
	int old = 0;

	while (old < c->n && now_ms - c->failed_ms[old] >= (uint64_t)h->window_ms)
		old++;
	c->n -= old;
	memmove(c->failed_ms, c->failed_ms + old, (size_t)c->n * sizeof(c->failed_ms[0]));
	c->failed_ms[c->n++] = now_ms;
	*ret_over = c->n >= h->failures;
	if (*ret_over) {
		c->n = 0;
		return (uint64_t)h->cooldown_ms;
	}
	return backoff_ms(COOLDOWN_FIRST_MS, (uint64_t)c->n - 1, COOLDOWN_MOST_MS);
}
