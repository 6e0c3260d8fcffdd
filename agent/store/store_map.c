/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/store/store_map.h"

#include "agent/store/store.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

struct record *store_record_new(const char *key, const void *value, size_t len)
{
	size_t key_len = strlen(key);
	struct record *r = malloc(sizeof(*r) + key_len + 1 + len);

	if (!r)
		return NULL;
	*r = (struct record){ .refs = 1, .key_len = key_len, .len = len };
	memcpy(r->key, key, key_len + 1);
	if (len)
		memcpy(r->key + key_len + 1, value, len);
	return r;
}

struct record *record_ref(struct record *r)
{
	r->refs++;
	return r;
}

struct record *record_unref(struct record *r)
{
	if (r && --r->refs == 0)
		free(r);
	return NULL;
}

const char *record_value(const struct record *r)
{
	return r->key + r->key_len + 1;
}

size_t record_cost(const struct record *r)
{
	return r->key_len + r->len + STORE_KEY_COST;
}

void map_init(struct map *m)
{
	*m = (struct map){ 0 };
	/* Random, so that a worker cannot choose keys that make the list slow. Any value will do.
	 */
	if (getrandom(&m->random, sizeof(m->random), GRND_NONBLOCK) < 0)
		m->random = (uintptr_t)m;
	m->random |= 1;
}

void map_fini(struct map *m)
{
	struct node *next;

	for (struct node *n = m->head[0]; n; n = next) {
		next = n->next[0];
		record_unref(n->record);
		free(n);
	}
	*m = (struct map){ 0 };
}

/* One in four nodes reaches the level above. */
static int draw_levels(struct map *m)
{
	uint64_t bits;
	int levels = 1;

	m->random ^= m->random << 13;
	m->random ^= m->random >> 7;
	m->random ^= m->random << 17;
	for (bits = m->random >> 16; levels < MAP_LEVELS && (bits & 3) == 0; bits >>= 2)
		levels++;
	return levels;
}

struct node *map_from(const struct map *m, const char *key)
{
	struct node *const *next = m->head;
	const struct node *end = NULL; /* known to come after the key, from the level above */

	for (int i = m->levels; i-- > 0; end = next[i])
		while (next[i] != end && strcmp(next[i]->record->key, key) < 0)
			next = next[i]->next;
	return next[0];
}

struct node *map_find(const struct map *m, const char *key)
{
	struct node *n = map_from(m, key);

	return n && strcmp(n->record->key, key) == 0 ? n : NULL;
}

struct node *map_seek(struct map *m, const char *key, struct map_place *place)
{
	struct node **next = m->head, *n, *end = NULL;

	for (int i = MAP_LEVELS; i-- > m->levels;)
		place->links[i] = &m->head[i];
	for (int i = m->levels; i-- > 0; end = next[i]) {
		while (next[i] != end && strcmp(next[i]->record->key, key) < 0)
			next = next[i]->next;
		place->links[i] = &next[i];
	}
	n = next[0];
	return n && strcmp(n->record->key, key) == 0 ? n : NULL;
}

struct node *map_insert(struct map *m, struct map_place *place, struct record *record)
{
	int levels = draw_levels(m);
	struct node *n = malloc(sizeof(*n) + (size_t)levels * sizeof(n->next[0]));

	if (!n)
		return NULL;
	n->record = record;
	n->levels = levels;
	for (int i = 0; i < levels; i++) {
		n->next[i] = *place->links[i];
		*place->links[i] = n;
	}
	if (levels > m->levels)
		m->levels = levels;
	m->n++;
	m->bytes += record_cost(record);
	return n;
}

struct record *map_replace(struct map *m, struct node *n, struct record *record)
{
	struct record *old = n->record;

	m->bytes += record_cost(record);
	m->bytes -= record_cost(old);
	n->record = record;
	return old;
}

struct record *map_remove(struct map *m, struct map_place *place)
{
	struct node *n = *place->links[0];
	struct record *r = n->record;

	for (int i = 0; i < n->levels; i++)
		*place->links[i] = n->next[i];
	while (m->levels > 0 && !m->head[m->levels - 1])
		m->levels--;
	m->n--;
	m->bytes -= record_cost(r);
	free(n);
	return r;
}
