/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/speed/batch.h"

#include "common/text/json.h"

#include <stdlib.h>
#include <string.h>

void batch_fini(struct batch *b)
{
	json_decref(b->looks);
	free(b->counts);
	memset(b, 0, sizeof(*b));
}

static bool batch_resize(struct batch *b, size_t n)
{
	if (b->n == n && b->looks)
		return true;
	batch_fini(b);
	b->looks = json_array();
	b->counts = calloc(n + 1, sizeof(*b->counts));
	b->n = b->counts ? n : 0;
	return b->looks && b->counts;
}

static json_t *batch_look(uint64_t number, const uint64_t *counts, const int64_t *last, size_t n)
{
	json_t *steps = json_array(), *begun = json_array();

	for (size_t i = 0; i < n; i++) {
		json_add(steps, json_integer(counts[i] ? last[i] : -1));
		json_add(begun, json_integer((json_int_t)(counts[i] & INT64_MAX)));
	}
	return json_pack(
		"{s:I, s:o, s:o}", "number", (json_int_t)number, "steps", steps, "counts", begun);
}

json_t *batch_add(
	struct batch *b, uint64_t number, const uint64_t *counts, const int64_t *last, size_t n)
{
	json_t *body;
	bool moved;

	if (!batch_resize(b, n))
		return NULL;
	if (number <= b->number) /* the clock was set back */
		json_array_clear(b->looks);
	b->number = number;
	moved = memcmp(b->counts, counts, n * sizeof(*counts)) != 0;
	memcpy(b->counts, counts, n * sizeof(*counts));
	if (!b->sends && !moved)
		return NULL;
	b->moved |= moved;
	json_add(b->looks, batch_look(number, counts, last, n));
	if (b->sends && json_array_size(b->looks) < BATCH_LOOKS)
		return NULL;
	body = json_pack("{s:o, s:b}", "looks", b->looks, "rests", !b->moved);
	b->looks = json_array();
	b->sends = b->moved;
	b->moved = false;
	return body;
}

void batch_forget(struct batch *b, size_t i)
{
	json_t *look;
	size_t k;

	if (i >= b->n)
		return;
	b->counts[i] = 0;
	json_array_foreach (b->looks, k, look)
		if (json_array_set_new(json_get_array(look, "counts"), i, json_integer(0)) < 0)
			return;
}
